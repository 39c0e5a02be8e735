"""The console at "/" in a real Chromium, operated by clicks, keys, files and the clipboard."""

import hashlib
import json
import re
import signal
import subprocess

import numpy as np
import pytest
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from support import browser as chromium
from support import console
from support.console import run_code
from support.waiting import until

driver, pages, page = console.driver, console.pages, console.page

MATRIX = [[2, 1, 3, 5], [3, 8, 7, 3], [9, 6, 2, 4]]
EXAMPLES = {  # examples of the operator pages
    ("directml", 0): [[2, 3, 6, 11], [3, 11, 18, 21], [9, 15, 17, 21]],
    ("directml", 1): [[0, 2, 3, 6], [0, 3, 11, 18], [0, 9, 15, 17]],
    ("directml", 2): [[11, 9, 8, 5], [21, 18, 10, 3], [21, 12, 6, 4]],
    ("directml", 3): [[2, 1, 3, 5], [5, 9, 10, 8], [14, 15, 12, 12]],
    ("openvino", 0): [1, 3, 6, 10, 15],
    ("openvino", 1): [0, 1, 3, 6, 10],
    ("openvino", 2): [15, 14, 12, 9, 5],
    ("openvino", 3): [14, 12, 9, 5, 0],
}


def is_linear(places, numbers):
    """Whether positions depend linearly on numbers, with a positive slope."""
    slope, shift = np.polyfit(numbers, places, 1)
    return slope > 0 and np.allclose(slope * np.array(numbers) + shift, places, atol=0.01)


def test_each_example_by_one_click_gives_the_pages_figures_and_draws_them(page):
    for (dialect, number), expected in EXAMPLES.items():
        expected = np.array(expected)
        answer = json.loads(page.example(dialect, number))
        data = answer["data"] if dialect == "directml" else answer["outputs"][0]["data"]
        assert data == expected.ravel().tolist()
        marks = "rect" if dialect == "directml" else "circle"
        for figure, numbers in (
            ("input", np.array(MATRIX if dialect == "directml" else [1, 2, 3, 4, 5])),
            ("tally", expected),
        ):
            places = [", ".join(map(str, index)) for index in np.ndindex(numbers.shape)]
            assert page.titles(figure, marks) == list(zip(places, numbers.ravel().tolist()))
            if dialect == "directml":
                opacities = page.attributes(figure, marks, "fill-opacity")
                assert is_linear(opacities, numbers.ravel())
                assert np.all(np.diff(page.attributes(figure, marks, "x").reshape(3, 4)) > 0)
                rows = page.attributes(figure, marks, "y").reshape(3, 4)
                assert np.all(np.diff(rows, axis=0) > 0)
            else:
                assert is_linear(-page.attributes(figure, marks, "cy"), numbers)
                assert is_linear(page.attributes(figure, marks, "cx"), np.arange(5))


def test_the_numbers_are_written_into_the_cells_and_the_arrows_run_along_the_axis(page):
    page.example("directml", 0)
    assert [text.text for text in page.all("#tally-plot .figure")][:4] == ["2", "3", "6", "11"]
    assert len(page.all("#tally-plot .arrow")) == 3  # one arrow per row
    assert "axis 3 runs right" in page["tally-plot"].text
    page.example("directml", 3)
    assert len(page.all("#tally-plot .arrow")) == 4  # one arrow per column
    page.example("directml", 2)
    assert "runs left" in page["tally-plot"].text


@pytest.mark.parametrize("preference, moving", [("no-preference", True), ("reduce", False)])
def test_the_arrows_move_once_unless_the_user_prefers_reduced_motion(page, preference, moving):
    chromium.emulate(page.driver, prefers_reduced_motion=preference)
    page.example("directml", 0)
    counts = "return document.getAnimations().map(a => a.effect.getTiming().iterations)"
    assert page.js(counts) == ([1, 1, 1] if moving else [])


def test_timings_are_those_of_the_answer_and_add_up(page):
    page.example("directml", 0)
    names = [name.text for name in page.all("#timings dt")]
    times = [float(time.text.split()[0]) for time in page.all("#timings dd")]
    by_name = dict(zip(names, times))
    in_server = ["queue", "compute", "text and copies"]
    assert names == [*in_server, "server", "transfer", "round trip"]
    us = {name: round(1000 * ms) for name, ms in by_name.items()}
    assert sum(us[part] for part in in_server) == us["server"]
    assert us["server"] + us["transfer"] == us["round trip"]
    assert 0 < us["server"] < us["round trip"]
    sums = page.js(
        "return [...document.querySelectorAll('#timings .sum dt')].map(e => e.textContent)"
    )
    assert sums == ["server", "round trip"]


def test_every_dialect_takes_every_control(page):
    page.set(data="[[1, 2], [3, 4]]", axis="1", direction="reverse", exclusive=True, dtype="int32")
    for dialect in ("v1", "directml", "openvino", "v2"):
        page.set(dialect=dialect)
        page.send()
        answer = page.answered()
        assert re.sub(r"[\[\]]", "", answer.split('"data":')[1]).rstrip("}") == "2,0,4,0", dialect
        assert re.search('"int32"|"INT32"|"I32"', answer)


def test_integers_of_64_bits_stay_exact(page):
    page.set(data="[9007199254740993, 18446744073709551000]", axis="0", dtype="uint64")
    page.send()
    assert "[9007199254740993,9007199254740377]" in page.answered()
    assert "9007199254740377" in page.js("return document.getElementById('tally-plot').textContent")


@pytest.mark.parametrize("dialect", ["v1", "v2"])
def test_integers_of_csv_stay_exact_however_they_are_written(page, dialect):
    page.set(data="+9007199254740993;009;-0;0", axis="0", dtype="int64", dialect=dialect)
    page.send()
    assert "9007199254740993,9007199254741002,9007199254741002" in page.answered()
    page.set(data="+.5\n-.5\n5.\n007.e1", axis="0", dtype="float64")
    page.send()
    assert re.search(r"[^\d]0\.5,0(\.0)?,5(\.0)?,75(\.0)?\]", page.answered())


def test_numbers_whose_difference_overflows_are_plotted(page):
    page.set(data="[1e308, -1e308, 1]", axis="0", dtype="float64")
    page.send()
    page.answered()
    for figure in ("input", "tally"):
        points = page.js(
            "return document.querySelector(arguments[0]).getAttribute('points')",
            f"#{figure}-plot polyline",
        )
        assert "NaN" not in points and len(points.split()) == 3, points


def test_csv_is_pasted_and_a_shape_makes_a_tensor_of_flat_numbers(page):
    page.set(data="1;2;3\n4;5;6", axis="1", dtype="")
    page.send()
    assert page.sums() == [[1, 3, 6], [4, 9, 15]]
    page.set(data="1,2,3,4", shape="2,2", axis="0", dtype="float64")
    page.send()
    assert page.sums() == [1, 2, 4, 6]


def test_an_npy_file_is_sent_as_it_is_and_its_answer_drawn(page, tmp_path):
    tensor = np.asfortranarray(np.arange(24, dtype=">f4").reshape(2, 3, 4))
    np.save(tmp_path / "in.npy", tensor)
    page.set(axis="-1")
    page["file"].send_keys(str(tmp_path / "in.npy"))
    assert json.loads(page.answered()) == np.cumsum(tensor, -1).ravel().tolist()
    assert "float32 [2, 3, 4]" in page["data-hint"].text
    drawn = [number for _, number in page.titles("input", "rect")]
    assert drawn == tensor[0].ravel().tolist()
    page.set(dialect="v2")
    page.send()
    assert json.loads(page.answered())["outputs"][0]["data"][-1] == 20 + 21 + 22 + 23
    np.save(tmp_path / "zero.npy", np.array([-0.0]))
    page.forget()
    page["file"].send_keys(str(tmp_path / "zero.npy"))
    assert '"data":[-0.0]' in page.answered()


def test_the_newest_of_file_and_text_counts(page, tmp_path):
    for name, text in (("slow.json", "[1, 2]"), ("quick.json", "[7, 8]")):
        (tmp_path / name).write_text(text)
    page.set(axis="0", dtype="int32", dialect="v1")
    page.js(
        """
        const read = File.prototype.arrayBuffer;
        File.prototype.arrayBuffer = async function () {
            if (this.name === "slow.json") await new Promise((resolve) => { window.letGo = resolve; });
            const bytes = await read.call(this);
            if (this.name === "slow.json") setTimeout(() => { window.wasRead = true; });
            return bytes;
        };"""
    )
    page["file"].send_keys(str(tmp_path / "slow.json"))
    until(lambda: page.js("return window.letGo !== undefined"))
    page["file"].send_keys(str(tmp_path / "quick.json"))
    assert page.answered() and page.sums() == [7, 15]
    page.js("window.letGo()")
    until(lambda: page.js("return window.wasRead"))
    page.send()
    assert page.answered() and page.sums() == [7, 15]
    page.set(data="[3, 4]")
    assert page["data-hint"].text == "" and page["file"].get_attribute("value") == ""
    np.save(tmp_path / "no.npy", np.array([1j]))
    page["file"].send_keys(str(tmp_path / "quick.json"))
    until(lambda: page["data-hint"].text == "quick.json")
    page["file"].send_keys(str(tmp_path / "no.npy"))
    until(lambda: "no numbers" in page["dtype-error"].text)
    assert page["data-hint"].text == ""


def test_a_blank_says_that_commas_separate_numbers(page):
    for text, sums in (("12, 60\n7, 55", [[12, 60], [19, 115]]), ("1, 2\n3,4", [[1, 2], [4, 6]])):
        page.set(**FORM | {"data": text, "axis": "0"})
        page.send()
        assert page.answered() and page.sums() == sums


def test_a_slider_chooses_the_plane_that_is_drawn(page):
    page.set(data=json.dumps(np.arange(24).reshape(2, 3, 4).tolist()), axis="2", dtype="")
    page.send()
    page.answered()
    assert [number for _, number in page.titles("input", "rect")] == list(range(12))
    page["place-0"].send_keys(Keys.ARROW_RIGHT)
    assert [number for _, number in page.titles("input", "rect")] == list(range(12, 24))
    expected = np.cumsum(np.arange(12, 24).reshape(3, 4), 1)
    assert [number for _, number in page.titles("tally", "rect")] == expected.ravel().tolist()


def test_a_dropped_file_is_read(page):
    page.set(axis="0", dtype="")
    page.js(
        """
        const files = new DataTransfer();
        files.items.add(new File(["[5,6,7]"], "numbers.json"));
        document.getElementById("data").dispatchEvent(
            new DragEvent("drop", { dataTransfer: files, bubbles: true, cancelable: true }));"""
    )
    assert page.answered() and page.sums() == [5, 11, 18]


def test_a_large_matrix_and_a_long_line_are_drawn(page):
    page.set(axis="0", dtype="")
    page.set(data=json.dumps(np.ones((100, 100), int).tolist()))
    page.send()
    page.answered()
    left, right = page.js(
        """
        const canvas = document.querySelector("#tally-plot canvas");
        const at = (y) => canvas.getContext("2d").getImageData(5, y, 1, 1).data[3];
        return [at(0), at(99)];"""
    )
    assert left < 30 < 200 < right
    numbers = np.zeros(20000, int)
    numbers[7777] = 1  # the peak must be visible even if the plot thins out its points
    page.set(data=json.dumps(numbers.tolist()))
    page.send()
    page.answered()
    points = page.all("#input-plot polyline")[0].get_attribute("points").split()
    assert len(points) < 1000
    assert len({point.split(",")[1] for point in points}) == 2


ERRORS_SHOWN = """
    const texts = [...document.querySelectorAll("#ask .error")].filter((e) => e.textContent !== "");
    return texts.map((e) => e.id);"""


FORM = {"data": str([[MATRIX]]), "axis": "3", "dtype": "float32", "shape": "", "dialect": "v1"}
WRONG = [
    ({"axis": "9"}, "axis", "expected -4 to 3"),
    ({"axis": "9", "dialect": "directml"}, "axis", "less than the DimensionCount"),
    ({"axis": "9", "dialect": "openvino"}, "axis", "expected -4 to 3"),
    ({"axis": "9", "dialect": "v2"}, "axis", "expected -4 to 3"),
    ({"axis": "x"}, "axis", "expected a whole number"),
    ({"dialect": "directml", "dtype": "float64"}, "dtype", "FLOAT64 is not supported"),
    ({"data": "[[1,2],[3]]", "axis": "0"}, "data", "has 1 element, but data[0] has 2"),
    ({"data": "[300]", "axis": "0", "dtype": "int8"}, "data", "300"),
    (
        {"data": "[[1,2],[3],[4,5,6]]", "axis": "0", "dialect": "v2"},
        "data",
        "depth 2 are arrays of 2",
    ),
    ({"data": '[{"a":1},2]', "axis": "0", "dialect": "openvino"}, "data", 'element 0 is {"a":1}'),
    ({"data": '["a 1",2]', "axis": "0", "dialect": "directml"}, "data", 'element 0 is "a 1"'),
    ({"data": "1,2,x", "axis": "0"}, "data", "line 1, column 3"),
    ({"data": "1;2\n3", "axis": "0", "dialect": "v2"}, "data", "line 2 has 1 number, expected 2"),
    ({"data": "1,5;2,5", "axis": "0"}, "data", 'column 1 is "1,5", expected a number, like -1.5'),
    (
        {"data": "12,60\n7,55", "axis": "0"},
        "data",
        '"12,60" can be one number or several: write 12, 60',
    ),
    ({"data": "1,234,567.5", "axis": "0"}, "data", '"1,234,567.5" can be one number or several'),
    ({"data": "1.234,56", "axis": "0"}, "data", '"1.234,56" can be one number or several'),
    ({"data": "1,5", "axis": "0"}, "data", '"1,5" can be one number or several: write 1, 5'),
    (
        {"data": "1,5 2,5", "axis": "0"},
        "data",
        "write decimal points, and one separator everywhere",
    ),
    ({"data": "[[1 2]\n [3 4]]", "axis": "0"}, "data", "Python: json.dumps(x.tolist())"),
    ({"data": "[[1,2] [3,4]]", "axis": "0"}, "data", "Python: json.dumps(x.tolist())"),
    ({"data": "[1. 2.]", "axis": "0"}, "data", "Python: json.dumps(x.tolist())"),
    ({"data": "array([1, 2])", "axis": "0"}, "data", "Python: json.dumps(x.tolist())"),
    ({"data": "a,b\n1,x", "axis": "0"}, "data", "line 2, column 2"),
    ({"data": "a,b\n1", "axis": "0"}, "data", "line 2 has 1 number, expected 2"),
    ({"data": "a,b", "axis": "0"}, "data", 'line 1, column 1 is "a"'),
    ({"axis": "007"}, "axis", "expected a whole number"),
    ({"shape": "3,x"}, "shape", "separated by commas"),
    (
        {"data": "[1,2,3]", "shape": "2,2", "axis": "0", "dialect": "v2"},
        "data",
        "found 3 elements, expected 4",
    ),
]


def test_an_error_stands_at_its_field(page):
    for fields, field, says in WRONG:
        page.set(**FORM | fields)
        page["send"].click()
        until(lambda: says in page[f"{field}-error"].text, 30, what=f"{field}: {says}")
        assert page[field].get_attribute("aria-invalid") == "true"
        assert f"{field}-error" in page[field].get_attribute("aria-describedby")
        assert page.driver.switch_to.active_element.get_attribute("id") == field
        assert sorted(page.js(ERRORS_SHOWN)) == sorted(
            [f"{field}-error", "error"]
        )  # the alert with the id "error" is shown, too


def test_an_error_disappears_with_the_next_request(page):
    page.set(axis="9")
    page["send"].click()
    until(lambda: page.js(ERRORS_SHOWN))
    page.example("openvino", 0)
    until(lambda: page.js(ERRORS_SHOWN) == [])
    assert page["axis"].get_attribute("aria-invalid") is None


LANGUAGES = ["curl", "Python", "JavaScript"]


def test_the_copied_code_makes_the_same_request(page, tmp_path):
    answer = page.example("directml", 2)
    for language in LANGUAGES:
        page.all(f"#languages input[value={language}]")[0].click()
        assert run_code(language, page.copied(), tmp_path).strip() == answer, language
        page.example("directml", 2)


def test_the_copied_code_ends_with_why_it_was_refused(page, tmp_path):
    page.set(axis="9")
    for language in LANGUAGES:
        page.all(f"#languages input[value={language}]")[0].click()
        with pytest.raises(subprocess.CalledProcessError) as ended:
            run_code(language, page["snippet"].get_attribute("textContent"), tmp_path)
        assert "axis is 9, expected " in ended.value.stdout + ended.value.stderr, language


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_copied_code_sends_a_file(page, tmp_path, language):
    np.save(tmp_path / "it's in.npy", np.arange(6.0).reshape(2, 3))
    page.set(axis="1")
    page["file"].send_keys(str(tmp_path / "it's in.npy"))
    page.answered()
    page.all(f"#languages input[value={language}]")[0].click()
    code = page["snippet"].get_attribute("textContent")
    run_code(language, code, tmp_path)
    assert np.load(tmp_path / "tally.npy").tolist() == [[0, 1, 3], [3, 7, 12]]


def test_it_is_used_by_keys_alone(page):
    def press(*keys):
        ActionChains(page.driver).send_keys(*keys).perform()

    page.js("location.hash = 'api'")
    until(lambda: page["view-api"].is_displayed())
    press(Keys.TAB)
    assert page.driver.switch_to.active_element.text == "To the content"
    press(Keys.ENTER)
    assert page.driver.switch_to.active_element.get_attribute("id") == "main"
    assert page["view-api"].is_displayed()
    page.js("location.hash = 'tensor'; document.activeElement.blur()")
    until(lambda: page["view-tensor"].is_displayed())
    for _ in range(60):
        press(Keys.TAB)
        if page.driver.switch_to.active_element.get_attribute("id") == "axis":
            break
    press(Keys.BACKSPACE, "-2", Keys.ENTER)
    assert json.loads(page.answered())["data"][2] == [14, 15, 12, 12]


def test_every_control_has_a_name_and_every_plot_a_text(page):
    page.example("directml", 0)
    nameless = page.js(
        """
        return [...document.querySelectorAll("main input, main select, main textarea")]
            .filter((e) => e.labels.length === 0).map((e) => e.id);"""
    )
    assert nameless == []
    tree = page.driver.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]
    names = {
        (node["role"]["value"], node["name"]["value"])
        for node in tree
        if "role" in node and "name" in node
    }
    assert ("image", "Tally: 3 rows of 4 numbers from 2 to 21") in names
    assert ("spinbutton", "Axis") in names or ("textbox", "Axis") in names


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_is_readable_in_both_schemes(page, scheme):
    chromium.emulate(page.driver, prefers_color_scheme=scheme)
    page.set(axis="9")
    page["send"].click()
    until(lambda: page["axis-error"].text)
    ground = "return getComputedStyle(document.body).backgroundColor"
    assert (console.luminance(page.js(ground)) < 0.1) == (scheme == "dark")
    for element in (page.all("body")[0], page["axis-error"], page.all(".hint")[0]):
        assert console.contrast(page, element) >= 4.5, element.get_attribute("outerHTML")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_numbers_in_cells_are_readable_in_both_schemes(page, scheme):
    chromium.emulate(page.driver, prefers_color_scheme=scheme)
    page.set(data=json.dumps(np.arange(64).reshape(8, 8).tolist()), axis="0", dtype="float32")
    page.send()
    page.answered()
    cells = page.js(
        """
        const look = (e, what) => getComputedStyle(e)[what];
        const figure = document.getElementById("input-plot");
        return [...figure.querySelectorAll("rect")].map((cell) => [
            look(cell, "fill"), Number(look(cell, "fillOpacity")), look(figure, "backgroundColor"),
            look(cell.nextElementSibling, "fill")]);"""
    )
    assert len(cells) == 64
    for fill, opacity, ground, text in cells:
        fill, ground = ([float(n) for n in re.findall(r"[\d.]+", c)[:3]] for c in (fill, ground))
        mixed = [opacity * a + (1 - opacity) * b for a, b in zip(fill, ground)]
        lights = sorted((console.luminance(str(mixed)) + 0.05, console.luminance(text) + 0.05))
        assert lights[1] / lights[0] >= 4.5, (fill, opacity, text)


def test_it_fits_a_phone(page):
    chromium.emulate(page.driver, width=320, height=740, mobile=True)
    page.example("directml", 0)
    for view in ("tensor", "service", "api"):
        page.js("location.hash = arguments[0]", view)
        until(lambda: page[f"view-{view}"].is_displayed())
        if view == "service":
            until(lambda: page.all("#devices tbody tr"))
        if view == "api":
            until(lambda: page.all("#routes details"))[0].click()
            until(lambda: page.all("#routes .try"))
        assert page.js("return document.documentElement.scrollWidth") == 320, view


def test_it_asks_nobody_else_and_leaves_nothing_behind(page):
    page.example("directml", 0)
    page.js("location.hash = 'service'")
    until(lambda: page.all("#devices tbody tr"))
    page.js("location.hash = 'api'")
    until(lambda: page.all("#routes details"))
    asked = page.js(
        "return performance.getEntries().map(e => e.name).filter(n => /^[a-z]+:/.test(n))"
    )
    assert any("/v1/devices" in name for name in asked)
    assert [name for name in asked if not name.startswith((page.base, "data:"))] == []
    assert page.driver.get_log("browser") == []
    assert page.js("return document.cookie + localStorage.length + sessionStorage.length") == "00"


def test_the_service_is_seen_live(page, client):
    page.js("location.hash = 'service'")
    tile = "return document.querySelector(`output[aria-label='${arguments[0]}']`).textContent"
    until(lambda: page.js(tile, "Requests per second") == "0")

    def busy():
        for _ in range(20):
            assert client.post_json("/v1/cumsum", {"data": [1, 2]}).status == 200
        assert client.post_json("/v1/cumsum", {"data": [1, 2], "axis": 7}).status == 400
        return (
            page.js(tile, "Requests per second") not in ("0", "-")
            and page.js(tile, "Refusals per second") not in ("0", "-")
            and re.fullmatch(
                r"p50 [\d.]+ ms +p99 [\d.]+ ms", page.js(tile, "Time of a request, p50 and p99")
            )
        )

    until(busy, 60)
    assert re.fullmatch(r"in .*B +out .*B", page.js(tile, "Bytes per second"))
    assert re.fullmatch(r".*B of .*B", page.js(tile, "Memory budget taken"))
    first_cells = """
        return [...document.querySelectorAll(arguments[0])].map((row) => row.cells[0].textContent);"""
    assert "invalid_axis" in page.js(first_cells, "#refusals tbody tr")
    last_cells = first_cells.replace("cells[0]", "cells[2]")
    # the table omits kinds of refusals that never happened
    assert "0" not in page.js(last_cells, "#refusals tbody tr")
    names = [device["name"] for device in client.get("/v1/devices").json()["devices"]]
    assert page.js(first_cells, "#devices tbody tr") == names
    points = "return document.querySelector('#tiles polyline').points.numberOfItems"
    before = page.js(points)
    until(lambda: page.js(points) > before)


def test_the_page_says_when_the_service_is_not_reached(pages, start_server):
    server = start_server()
    page = pages.open(server.port, view="service")
    until(lambda: page["state"].text == "ready")
    until(lambda: page.all("#devices tbody tr"))
    # the kernel still accepts connections for the stopped service, which answers nothing
    server.signal(signal.SIGSTOP)
    page.js("showState()")  # the page would ask by itself within five seconds
    until(lambda: page["state"].text == "not reached", 60)
    until(lambda: page["watch"].text.startswith("The figures are not available: "), 60)
    server.signal(signal.SIGCONT)
    page.js("showState()")
    until(lambda: page["state"].text == "ready", 60)
    until(lambda: page["watch"].text.startswith("The page reads these figures"), 60)
    server.kill()
    # the page notices this without a click
    until(lambda: page["state"].text == "not reached", 60)


def test_a_service_that_begins_anew_is_not_compared_with_itself_before(pages, start_server):
    server = start_server()
    page = pages.open(server.port, view="service")
    begun = """
        const rows = samples.map((s) => s.metrics.find((r) => r.name === "process_start_time_seconds"));
        return rows.map((row) => row.value);"""
    until(lambda: len(page.js(begun)) >= 3, 60)
    [before] = set(page.js(begun))  # the start time is the same in all samples
    server.kill()
    again = start_server("--listen", f"127.0.0.1:{server.port}")
    until(lambda: page.js(begun)[-1:] not in ([], [before]), 60)
    assert before not in page.js(begun)
    client = again.client()
    quantiles = "return document.querySelector(`output[aria-label^='Time of']`).textContent"

    def measured():
        assert client.post_json("/v1/cumsum", {"data": [1, 2]}).status == 200
        return "ms" in page.js(quantiles)

    until(measured, 60)
    client.close()


HOLD = """
    window.asked = window.fetch;
    window.fetch = (url, options) => {
        if (!url.endsWith(arguments[0]) || window.held) return window.asked(url, options);
        window.held = window.asked(url, options);
        return new Promise((resolve) => { window.letGo = () => resolve(window.held); });
    };"""
LET_GO = """
    const done = arguments[0];
    window.letGo();
    window.held.catch(() => null)
        .then(() => window.asked(`${base}/livez`)).then((answer) => answer.text())
        .then(() => setTimeout(done, 0));"""


def test_a_late_answer_does_not_take_the_place_of_a_newer_one(page):
    page.js(HOLD, "/v1/cumsum")
    page.set(data="[1, 2]", axis="0", dtype="int32")
    page["send"].click()
    page.set(data="[5, 6]")
    page["data"].send_keys(Keys.CONTROL, "a")
    newer = json.loads(page.example("openvino", 0))
    page.driver.execute_async_script(LET_GO)
    assert json.loads(page.answered()) == newer
    assert page["error"].text == ""


def test_a_late_answer_of_a_route_does_not_take_the_place_of_a_newer_one(page):
    page.js("location.hash = 'api'")
    until(lambda: page.all("#routes details"))[0].click()
    form = until(lambda: page.all("#routes .try"))[0]
    page.js(HOLD, "/v1/cumsum")
    button = form.find_element(By.TAG_NAME, "button")
    button.click()
    page.js("arguments[0].value = '{'", form.find_element(By.TAG_NAME, "textarea"))
    button.click()
    status = form.find_element(By.CSS_SELECTOR, "[role=status]")
    until(lambda: status.text.startswith("400"))
    page.driver.execute_async_script(LET_GO)
    assert status.text.startswith("400")


def test_the_button_keeps_the_focus_while_its_answer_is_waited_for(page):
    page.js(HOLD, "/v1/cumsum")
    page["send"].send_keys(Keys.SPACE)
    until(lambda: page.js("return window.held !== undefined"))
    # Wait for the next frame: a button that was disabled meanwhile has lost the focus by then.
    page.driver.execute_async_script("requestAnimationFrame(() => setTimeout(arguments[0], 0))")
    assert page.driver.switch_to.active_element.get_attribute("id") == "send"
    page.driver.execute_async_script(LET_GO)
    page.answered()
    assert page.driver.switch_to.active_element.get_attribute("id") == "send"


def test_a_hidden_page_asks_for_nothing(page):
    page.js("location.hash = 'service'")
    asked = "return performance.getEntriesByType('resource').filter(e => e.name.endsWith('/metrics')).length"
    until(lambda: page.js(asked) >= 2)
    page.js(
        """
        Object.defineProperty(document, "hidden", { value: true, configurable: true });
        document.dispatchEvent(new Event("visibilitychange"));"""
    )
    until(lambda: not page.js("return watching"))  # the polling loop has ended
    before = page.js(asked)
    page.js("delete document.hidden; document.dispatchEvent(new Event('visibilitychange'))")
    until(lambda: page.js(asked) > before)


def test_every_route_is_shown_and_one_is_tried(page, client):
    page.js("location.hash = 'api'")
    until(lambda: page.all("#routes details"))
    paths = client.get("/openapi.json").json()["paths"]
    routes = {f"{method.upper()} {path}:" for path in paths for method in paths[path]}
    page["more-routes"].find_element(By.TAG_NAME, "summary").click()
    shown = [summary.text for summary in page.all("#routes summary")]
    shown.remove(f"{len(routes) - 10} other routes")
    assert len(shown) == len(routes)
    assert {" ".join(text.split()[:2]) for text in shown} == routes
    page.all("#routes details")[0].click()
    form = until(lambda: page.all("#routes .try"))[0]
    assert "dtype: " in page["routes"].text  # the schema of the request is shown
    form.find_element(By.TAG_NAME, "button").click()
    until(lambda: form.find_element(By.TAG_NAME, "pre").text)
    assert form.find_element(By.CSS_SELECTOR, "[role=status]").text.startswith("200")
    answer = json.loads(form.find_element(By.TAG_NAME, "pre").text)
    assert answer["data"] == EXAMPLES["directml", 0]


# ---- a token ----


@pytest.fixture
def guarded(start_server, tmp_path):
    digest = hashlib.sha256(b"sesame").hexdigest()
    (tmp_path / "tokens").write_text(f"somebody:{digest}:infer,metrics,admin\n")
    return start_server("--token-file", str(tmp_path / "tokens"))


def test_a_token_is_asked_for_and_kept_in_memory_alone(pages, guarded):
    page = pages.open(guarded.port)
    until(lambda: page["state"].text == "ready")
    until(lambda: page.js("return versionToken === token"))
    assert page["version"].text == "" and not page["token"].is_displayed()
    page.all("#openvino-examples button")[0].click()
    until(lambda: page["token"].is_displayed())
    page["token"].send_keys("wrong", Keys.ENTER)
    until(lambda: "not one of this server" in page["token-error"].text)
    typed = page.js("return performance.now()")
    page["token"].send_keys("sesame", Keys.ENTER)
    assert json.loads(page.answered())["outputs"][0]["data"] == EXAMPLES["openvino", 0]
    # The time before the first key does not count as time of the request.
    took = until(lambda: re.fullmatch(r"Summed in ([\d.]+) ms.", page["progress"].text))
    # the page shows four digits
    assert 0.999 * float(took[1]) <= page.js("return performance.now()") - typed
    until(lambda: "$TALLY_TOKEN" in page["snippet"].text)
    assert "sesame" not in page.js("return document.documentElement.outerHTML + document.cookie")
    assert page.js("return localStorage.length + sessionStorage.length") == 0
    page.js("location.hash = 'service'")
    until(lambda: page.all("#devices tbody tr"))
    until(lambda: re.fullmatch(r"\d+\.\d+\.\d+.*", page["version"].text))


def test_the_console_says_that_the_server_requires_a_token(pages, guarded):
    page = pages.open(guarded.port)
    page.all("#openvino-examples button")[0].click()
    until(lambda: page["token"].is_displayed())
    page["token"].send_keys(Keys.ESCAPE)
    until(lambda: "this server wants a token" in page["error"].text)
    page.js("location.hash = 'service'")
    until(lambda: page["token"].is_displayed())
    page["token"].send_keys(Keys.ESCAPE)
    until(lambda: "this server wants a token" in page["watch"].text)
    until(lambda: not page.js("return watching"))  # the page stops polling
