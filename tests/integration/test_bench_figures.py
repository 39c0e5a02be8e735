"""The last figures of two makers of processors in docs/performance.md: which run replaces which,
how machines are named, and what the page says about machines in another memory mode."""

import json
import sys

import pytest

from support.cpuinfo import CPUS, cpuinfo
from support.tallyd import TOP

sys.path.insert(0, str(TOP / "tests" / "bench"))

import figures  # noqa: E402
import page  # noqa: E402
import processor  # noqa: E402
import tables  # noqa: E402
from report import Goal, Row  # noqa: E402

pytestmark = pytest.mark.release_only


def document(maker, rows, began="2026-11-29 10:00", **run):
    """The document that run.py writes for a section on a machine of the maker."""
    machine = {**processor.facts(cpuinfo(*CPUS[maker])), "cores": 2, "caches": {"L2": 2 << 20}}
    run = {
        "options": [],
        "began": began,
        "commit": "0123abcd",
        "others": 0.0,
        "seconds": 1.0,
        **run,
    }
    return {"machine": {**machine, "system": "Debian"}, "run": run, "rows": rows}


def startup_rows(seconds):
    return [Row("start to ready, s", "", seconds, goal=Goal("<", 0.1)).as_json()]


def peer_rows(ratio):
    return [Row("3x4 axis 1", "numpy", ratio, goal=Goal(">", 1), ratios={"numpy": ratio}).as_json()]


def families_of(*documents):
    """The families after a sequence of runs, each given as (section, document)."""
    families = {}
    for section, each in documents:
        figures.take_over(families, {section: each})
    return families


def filled(families):
    return page.filled(page.PAGE.read_text(), page.blocks(families, {}))


def test_a_run_replaces_the_figures_of_its_own_maker_and_keeps_the_others():
    families = families_of(
        ("startup", document("AMD", startup_rows(0.03))),
        ("startup", document("Intel", startup_rows(0.05))),
        ("startup", document("AMD", startup_rows(0.04), "2026-11-30 10:00")),
    )
    text = filled(families)
    joined = " ".join(text.split())  # lines are wrapped
    assert "| what | goal | found, AMD | found, Intel |" in text
    assert "| start to ready, s | < 0.1 | 0.04 | 0.05 |" in text
    assert "AMD Zen 4: 2026-11-30 10:00, commit 0123abcd" in joined
    assert "Intel Granite Rapids: 2026-11-29 10:00, commit 0123abcd" in joined


def test_a_run_of_one_section_keeps_the_other_sections():
    families = families_of(
        ("startup", document("AMD", startup_rows(0.03))),
        ("peers", document("AMD", peer_rows(3.0), "2026-11-30 10:00")),
    )
    assert list(families["AMD"]["sections"]) == ["peers", "startup"]
    text = filled(families)
    assert "AMD Zen 4: 2026-11-29 10:00" in text and "AMD Zen 4: 2026-11-30 10:00" in text


def test_figures_stay_where_the_new_run_is_older_or_no_figures_to_go_by():
    newer = document("AMD", startup_rows(0.03), "2026-11-30 10:00")
    families = families_of(("startup", newer))
    older = document("AMD", startup_rows(0.09))
    quick = document("AMD", startup_rows(0.09), "2026-12-01 10:00", options=["--quick"])
    (first,) = figures.take_over(families, {"startup": older})
    busy = document("AMD", startup_rows(0.09), "2026-12-01 10:00", others=1.5)
    (second,) = figures.take_over(families, {"startup": quick})
    (third,) = figures.take_over(families, {"startup": busy})
    assert "newer figures, of 2026-11-30 10:00, are there" in first
    assert "its run left work out (--quick)" in second
    assert "other programs kept 1.5 processors busy" in third
    assert families == families_of(("startup", newer))
    figures.take_over(families, {"startup": quick}, any_run=True)
    assert families["AMD"]["sections"]["startup"]["rows"][0]["ratio"] == 0.09


def test_a_run_that_measured_nothing_replaces_nothing():
    families = families_of(("startup", document("AMD", startup_rows(0.03))))
    nothing = document("AMD", startup_rows(None), "2026-11-30 10:00")
    (sentence,) = figures.take_over(families, {"startup": nothing})
    assert "its run measured nothing" in sentence
    assert families["AMD"]["sections"]["startup"]["rows"][0]["ratio"] == 0.03


def test_the_page_can_be_written_again_from_the_files_alone(tmp_path):
    bench, beside = tmp_path / "bench", tmp_path / "plots"
    bench.mkdir()
    beside.mkdir()
    written = tmp_path / "performance.md"
    written.write_text(page.PAGE.read_text())
    for maker in CPUS:
        (bench / "peers.json").write_text(json.dumps(document(maker, peer_rows(2.5))))
        page.render(bench, written, beside)
    names = {path.name for path in beside.iterdir()}
    both = {
        f"{kind}-{maker}" for kind in ("figures", "peers") for maker in ("amd.json", "intel.json")
    }
    assert names == {name.replace("json", "svg") if "peers" in name else name for name in both}
    text, stored = written.read_text(), figures.read_all(beside)
    assert "| numpy | 2.50 of 1 | 2.50 of 1 | 0 | 0 |" in text and "plots/peers-intel.svg" in text
    written.write_text(page.PAGE.read_text())
    page.write(written, beside)
    assert written.read_text() == text
    for maker, family in stored.items():
        assert figures.path_of(beside, maker).read_text() == figures.as_text(family)


def test_a_plot_that_has_no_figures_any_more_is_deleted(tmp_path):
    (tmp_path / "service-amd.svg").write_text("of an older run")
    (tmp_path / "service-intel.svg").write_text("of another maker")
    family = families_of(("peers", document("AMD", peer_rows(3.0))))["AMD"]
    assert page.drawn_again(family, tmp_path)["peers"] == {
        "peers-amd.svg": "Tally beside other libraries, AMD Zen 4"
    }
    assert {path.name for path in tmp_path.iterdir()} == {"peers-amd.svg", "service-intel.svg"}


def test_a_slow_and_a_fast_mode_of_memory_are_told_apart():
    slow = document("AMD", startup_rows(0.03), copy_gb_per_s=57.2)
    fast = document("AMD", peer_rows(3.0), "2026-11-30 10:00", copy_gb_per_s=95.4)
    text = filled(families_of(("startup", slow)))
    assert "copy 57 GB/s." in text and "compare ratios" not in text
    text = " ".join(filled(families_of(("startup", slow), ("peers", fast))).split())
    assert "copy 57 GB/s (slow memory)." in text and "copy 95 GB/s (fast memory)." in text
    assert "95 (2026-11-30, AMD Zen 4), 57 (2026-11-29, AMD Zen 4)." in text
    assert "compare ratios to the copy, not GB/s" in text


def test_a_copy_of_a_run_that_was_replaced_is_remembered():
    slow = document("AMD", startup_rows(0.03), copy_gb_per_s=57.2)
    fast = document("AMD", startup_rows(0.03), "2026-11-30 10:00", copy_gb_per_s=95.4)
    family = families_of(("startup", slow), ("startup", fast))["AMD"]
    assert figures.differ(family) and figures.mode(family, fast["run"]) == "fast"


@pytest.mark.parametrize(
    "maker, run", [("Intel", {}), ("AMD", {"others": 0.9}), ("AMD", {"copy_gb_per_s": 60.0})]
)
def test_other_makers_busy_machines_and_small_differences_make_no_mode(maker, run):
    first = document("AMD", startup_rows(0.03), copy_gb_per_s=57.2)
    more = {"copy_gb_per_s": 25.0, **run}
    second = document(maker, peer_rows(3.0), "2026-11-30 10:00", **more)
    families = families_of(("startup", first))
    figures.take_over(families, {"peers": second}, any_run=True)
    assert not any(figures.differ(family) for family in families.values())
    assert "memory)" not in filled(families)


def test_tables_that_are_too_wide_follow_each_other_with_a_name_each():
    wide = tables.Table(["work", *(f"figure {i}" for i in range(6))], [["a", *["0.12345"] * 6]])
    captions = {maker: f"{cpu[5]}: then." for maker, cpu in CPUS.items()}
    lines = tables.together({maker: wide for maker in CPUS}, captions)
    assert [line for line in lines if "then." in line] == list(captions.values())
    assert sum(line.startswith("| a |") for line in lines) == 2


def test_a_missing_figure_of_one_maker_is_shown_as_a_dash():
    of = {
        "AMD": tables.Table(["work", "ratio"], [["a", "1"], ["b", "2"]]),
        "Intel": tables.Table(["work", "ratio", "more"], [["b", "3", "4"], ["c", "5", "6"]]),
    }
    assert tables.side_by_side(of) == [
        "| work | ratio, AMD | ratio, Intel | more, AMD | more, Intel |",
        "| --- | --- | --- | --- | --- |",
        "| a | 1 | - | - | - |",
        "| b | 2 | 3 | - | 4 |",
        "| c | - | 5 | - | 6 |",
    ]


def test_figures_of_before_runs_named_the_maker_are_taken_over_by_their_model():
    old = document("AMD", startup_rows(0.03))
    old["machine"] = {"cpu": "AMD EPYC", "cores": 2, "caches": {}, "system": "Debian"}
    del old["run"]["commit"]
    text = filled(families_of(("startup", old)))
    assert "AMD EPYC: 2026-11-29 10:00, commit not recorded, copy not measured." in text
