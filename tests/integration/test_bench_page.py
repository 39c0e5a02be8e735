"""docs/performance.md as the benchmark fills it in: whole, short, and of one run."""

import json
import re
import sys
import xml.etree.ElementTree

import pytest

from support.tallyd import TOP

BENCH = TOP / "tests" / "bench"
sys.path.insert(0, str(BENCH))

import compute  # noqa: E402
import frameworks  # noqa: E402
import kernels  # noqa: E402
import page  # noqa: E402
import plots  # noqa: E402
import service  # noqa: E402
import startup  # noqa: E402
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
        seconds["openvino"] = 1e-6 if count > 1000 else 1e-3  # which loses at one size alone
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
    """What a whole run of the benchmark leaves."""
    for name, make in MAKERS.items():
        rows = [row.as_json() for row in make()]
        (tmp_path / f"{name}.json").write_text(
            json.dumps({"machine": ABOUT, "run": RUN, "rows": rows})
        )
    return tmp_path


def test_a_whole_run_fills_a_page_that_people_can_read(folder):
    sections = page.read_sections(folder)
    text = page.filled(page.PAGE.read_text(), page.blocks(sections))
    lines = text.splitlines()
    assert len(lines) <= 120 and max(map(len, lines)) <= 120
    assert "numpy from 1000000, onnxruntime at no size, openvino at no size." in text
    assert "Not measured" not in text and "| one row | *0.55* | *0.55* | 0.55 |" in text
    assert text.count("2026-11-22, ") == 1  # one run, said once


def test_the_page_stays_as_it_is_when_it_is_filled_again(folder):
    found = page.blocks(page.read_sections(folder))
    once = page.filled(page.PAGE.read_text(), found)
    assert page.filled(once, found) == once


def test_what_was_not_measured_says_so(folder):
    (folder / "peers.json").unlink()
    found = page.blocks(page.read_sections(folder))
    assert "Not measured in this run." in page.filled(page.PAGE.read_text(), found)


def test_a_run_on_a_busy_machine_is_called_that(folder):
    sections = page.read_sections(folder)
    assert "Other programs" not in "".join(page.runs(sections))
    sections["peers"]["run"] = {**RUN, "others": 0.3}
    assert "Other programs" in "".join(page.runs(sections))


def test_a_page_without_its_markers_is_refused(folder):
    text = page.PAGE.read_text().replace("<!-- end: peers -->\n", "")
    with pytest.raises(ValueError, match="markers of peers"):
        page.filled(text, page.blocks(page.read_sections(folder)))


def test_plots_are_small_and_the_same_for_the_same_figures(folder, tmp_path):
    sections = page.read_sections(folder)
    plots.draw_all(sections, folder)
    drawn = {path.name: path.read_bytes() for path in folder.glob("*.svg")}
    shown = re.findall(r"plots/([\w-]+\.svg)", page.PAGE.read_text())
    assert set(drawn) == set(shown)
    for data in drawn.values():
        assert len(data) < 60_000
        xml.etree.ElementTree.fromstring(data)
    again = tmp_path / "again"
    again.mkdir()
    plots.draw_all(sections, again)
    assert {path.name: path.read_bytes() for path in again.glob("*.svg")} == drawn


def test_every_layout_that_is_measured_is_in_one_line_of_the_table():
    layouts = re.findall(r'(?:PACKED|LAID)\("([^"]+)"', (BENCH / "bench_cases.c").read_text())
    for layout in layouts:
        groups = [name for name, those in page.LAYOUTS.items() if re.fullmatch(those, layout)]
        assert len(groups) == 1, (layout, groups)
