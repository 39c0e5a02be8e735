"""docs/performance.md as the benchmark fills it in: after a whole run, after a quick run, and with
figures of one run only."""

import json
import re
import sys
import xml.etree.ElementTree

import pytest

from support.tallyd import TOP

BENCH = TOP / "tests" / "bench"
sys.path.insert(0, str(BENCH))

import compute  # noqa: E402
import figures  # noqa: E402
import frameworks  # noqa: E402
import kernels  # noqa: E402
import page  # noqa: E402
import plots  # noqa: E402
import service  # noqa: E402
import startup  # noqa: E402
import tables  # noqa: E402
from report import Goal, Row  # noqa: E402

pytestmark = pytest.mark.release_only

ABOUT = {
    "cpu": "AMD EPYC",
    "cores": 2,
    "caches": {"L2": 2 << 20},
    "system": "Debian",
}
RUN = {"options": [], "began": "2026-11-22 16:14", "others": 0.1, "seconds": 9.0}
MISSED = Goal(">=", 100)
ENGINES = {"numpy": 0.77, "torch": 0.91, "openvino": 0.6, "onnxruntime": 0.6}


def kernel_rows():
    layouts = re.findall(r'(?:PACKED|LAID)\("([^"]+)"', (BENCH / "bench_cases.c").read_text())
    assert len(layouts) > 40
    case = {"exclusive": False, "reverse": False, "apart": False, "ratio": 0.55, "gb_per_s": 20.0}
    case |= {"copy_gb_per_s": 40.0, "ratio_low": 0.5, "ratio_high": 0.6}
    cases = []
    for layout in layouts:
        for dtype, apart in (("float32", False), ("float32", True), ("int8", False)):
            own = {"layout": layout, "dtype": dtype, "apart": apart}
            cases.append({**case, **own, "bytes": 64 << 20})
    yield from kernels.type_rows(cases)
    swept = [{**cases[0], "scan": "a", "bytes": size} for size in kernels.SIZES]
    yield from kernels.size_rows(swept)


def peer_rows():
    for case in compute.CASES:
        yield Row(compute.describe(*case), "numpy", 0.6, ratios=ENGINES)


def remote_rows():
    for count, inside in ((1000, 1e-5), (100000, 1e-4), (1000000, 1e-3), (16 << 20, 2e-2)):
        seconds = {"numpy": inside, "onnxruntime": 1e-6, "TCP": 9e-4, "Unix socket": 8e-4}
        seconds["openvino"] = 1e-6 if count > 1000 else 1e-3  # slower at one size only
        work = f"{count} elements, Unix socket"
        yield Row(work, "numpy", inside / 8e-4, elements=count, seconds=seconds)


def service_rows():
    names = [work.name for work in (*service.small_works(False), *service.large_works(False))]
    figures = {"requests_per_second": 12345.6, "bare_requests_per_second": 99999.9}
    for name in [
        *names,
        "p99 of small JSON c=8 beside 256 MiB",
        "p99 of small raw at 80% of the top rate",
    ]:
        yield Row(
            name, "bare libmicrohttpd", 0.44, goal=MISSED, p50_us=1234, p99_us=123456, **figures
        )


def framework_rows():
    for peer in ("FastAPI + NumPy", "FastAPI + PyTorch"):
        for work, _ in frameworks.web_works(False):
            yield Row(work.name, peer, 12.3, goal=MISSED)
    for work, _ in frameworks.v2_works():
        yield Row(work.name, "MLServer", 12.3, goal=MISSED)


def startup_rows():
    for name in ("start to ready, s", "RSS idle, MB", "RSS after", "peak RSS"):
        yield Row(name, "", 72.5, goal=MISSED)
    for tensor in startup.TENSORS:
        yield Row(
            f"first {tensor[0]} {tensor[1]}",
            "later",
            0.2,
            goal=MISSED,
            first_ms=120.0,
            later_ms=24.0,
        )


def goodput_rows():
    for kind in range(7):
        shares = {"1": 1.0, "2": 0.9, "4": 0.8, "8": 0.7}
        loads = {"1": {"good": 12345.0}}
        yield Row(
            "goodput",
            "peak",
            0.7,
            goal=MISSED,
            kind=f"a mix of 3x4 JSON, {kind}",
            shares=shares,
            loads=loads,
        )


MAKERS = {
    "kernels": kernel_rows,
    "peers": peer_rows,
    "remote": remote_rows,
    "service": service_rows,
    "frameworks": framework_rows,
    "startup": startup_rows,
    "goodput": goodput_rows,
}


@pytest.fixture(name="folder")
def folder_fixture(tmp_path):
    """The output of a whole run of the benchmark."""
    folder = tmp_path / "bench"
    folder.mkdir()
    for name, make in MAKERS.items():
        rows = [row.as_json() for row in make()]
        (folder / f"{name}.json").write_text(
            json.dumps({"machine": ABOUT, "run": RUN, "rows": rows})
        )
    return folder


def families_of(folder):
    families = {}
    figures.take_over(families, figures.read_documents(folder))
    return families


def page_of(families):
    drawn = {maker: {"peers": {"peers.svg": "Peers"}} for maker in families}
    return page.filled(page.PAGE.read_text(), page.blocks(families, drawn))


def test_a_whole_run_fills_a_page_that_people_can_read(folder):
    text = page_of(families_of(folder))
    lines = text.splitlines()
    assert len(lines) <= 160 and max(map(len, lines)) <= 120
    assert "numpy from 1000000, onnxruntime at no size, openvino at no size." in text
    assert "Not measured" not in text and "| one row | *0.55* | *0.55* | 0.55 |" in text
    assert (
        text.count("2026-11-22, commit not recorded, `tests/bench/run.py`") == 1
    )  # one run, whose caption occurs once


def test_whole_runs_of_two_makers_fit_a_page_with_both_names_at_each_section(folder):
    families = families_of(folder)
    intel = {"cpu": "Intel(R) Xeon(R)", "maker": "Intel", "name": "Intel Sapphire Rapids"}
    for document in (documents := figures.read_documents(folder)).values():
        document["machine"] |= intel
    figures.take_over(families, documents)
    text = page_of(families)
    assert max(map(len, text.splitlines())) <= 120
    for name in (*page.SECTIONS, "goals"):
        block = text.split(f"<!-- bench: {name} -->")[1].split(f"<!-- end: {name} -->")[0]
        assert "AMD EPYC: 2026-11-22" in block and "Intel Sapphire Rapids: 2026-11-22" in block
    heads = (
        "float32, AMD | float32, Intel | apart, AMD | apart, Intel | others, AMD | others, Intel"
    )
    assert f"| mean of layouts, least | {heads} |" in text
    assert "| NumPy, AMD | NumPy, Intel | PyTorch, AMD | PyTorch, Intel |" in text


def test_the_page_stays_as_it_is_when_it_is_filled_again(folder):
    found = page.blocks(families_of(folder), {})
    once = page.filled(page.PAGE.read_text(), found)
    assert page.filled(once, found) == once


def test_a_section_without_a_measurement_says_so(folder):
    (folder / "peers.json").unlink()
    assert "Not measured yet." in page_of(families_of(folder))


def test_a_run_on_a_busy_machine_is_called_that(folder):
    families = families_of(folder)
    assert "Other programs" not in "".join(page.runs(families))
    families["AMD"]["sections"]["peers"]["run"] = {**RUN, "copy_gb_per_s": 5.0, "others": 0.3}
    assert "Other programs" in "".join(page.runs(families))


def test_a_page_without_its_markers_is_refused(folder):
    text = page.PAGE.read_text().replace("<!-- end: peers -->\n", "")
    with pytest.raises(ValueError, match="markers of peers"):
        page.filled(text, page.blocks(families_of(folder), {}))


def test_plots_are_small_and_the_same_for_the_same_figures(folder, tmp_path):
    sections = families_of(folder)["AMD"]["sections"]
    named = plots.draw_all(sections, folder, "-amd")
    drawn = {path.name: path.read_bytes() for path in folder.glob("*.svg")}
    assert set(drawn) == {name for own in named.values() for name in own}
    assert len(drawn) == sum(map(len, plots.PLOTS.values()))
    for data in drawn.values():
        assert len(data) < 60_000 and b"AMD EPYC, 2026-11-22</title>" in data
        xml.etree.ElementTree.fromstring(data)
    again = tmp_path / "again"
    again.mkdir()
    plots.draw_all(sections, again, "-amd")
    assert {path.name: path.read_bytes() for path in again.glob("*.svg")} == drawn


def test_figures_that_are_kept_draw_the_plots_of_the_run_itself(folder, tmp_path):
    plots.draw_all(figures.read_documents(folder), tmp_path)
    plots.draw_all(families_of(folder)["AMD"]["sections"], folder)
    for path in folder.glob("*.svg"):
        assert path.read_bytes() == (tmp_path / path.name).read_bytes()


def test_the_page_in_the_tree_is_what_its_figures_give(tmp_path):
    written = tmp_path / "performance.md"
    written.write_text(page.PAGE.read_text())
    for path in page.PICTURES.glob("figures-*.json"):
        (tmp_path / path.name).write_text(path.read_text())
    page.write(written, tmp_path)
    assert written.read_text() == page.PAGE.read_text()
    for path in tmp_path.glob("*.svg"):
        assert path.read_bytes() == (page.PICTURES / path.name).read_bytes()


def test_every_layout_that_is_measured_is_in_one_line_of_the_table():
    layouts = re.findall(r'(?:PACKED|LAID)\("([^"]+)"', (BENCH / "bench_cases.c").read_text())
    for layout in layouts:
        groups = [name for name, those in tables.LAYOUTS.items() if re.fullmatch(those, layout)]
        assert len(groups) == 1, (layout, groups)
