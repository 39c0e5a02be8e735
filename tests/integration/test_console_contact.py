"""The first contact with the console: the first example, edited data, refusals, saved answers,
plots, routes."""

import json

import numpy as np
import pytest
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys

from support import browser as chromium
from support import console
from support.waiting import until

driver, pages, page = console.driver, console.pages, console.page

MATRIX = [[2, 1, 3, 5], [3, 8, 7, 3], [9, 6, 2, 4]]
ROUNDED = "[16777217,1]"  # float32 cannot represent the first number


def press(page, *keys):
    ActionChains(page.driver).send_keys(*keys).perform()


def value(page, name):
    return page[name].get_attribute("value")


def snippet(page):
    return page["snippet"].get_attribute("textContent")


def replace_data(page, *keys):
    """Type the keys in place of all data."""
    page["data"].send_keys(Keys.CONTROL, "a")
    page["data"].send_keys(*keys)


def refused(page, field, **fields):
    """Send fields that are refused. Returns the error at the field, and the sentence below the
    form."""
    page.set(**fields)
    page["send"].click()
    until(lambda: page[f"{field}-error"].text, what=field)
    return page[f"{field}-error"].text, page["error"].text


# ---- the first view ----


def test_it_opens_with_a_matrix_an_introduction_and_the_version(page, client):
    assert json.loads(value(page, "data")) == MATRIX
    assert (value(page, "axis"), value(page, "dtype"), value(page, "dialect")) == ("0", "", "v1")
    assert "computes cumulative sums" in page["intro"].text
    version = client.get("/version").json()["version"]
    until(lambda: page["version"].text == version)
    page.send()
    assert page.sums() == np.cumsum(MATRIX, 0).tolist()


# ---- edited and pasted data ----


def test_data_in_place_of_an_example_have_their_own_type_and_axis(page):
    page.example("directml", 0)
    assert (value(page, "axis"), value(page, "dtype")) == ("3", "float32")
    page.set(dialect="v1")
    replace_data(page, ROUNDED)
    assert (value(page, "axis"), value(page, "dtype")) == ("0", "")
    page.send()
    assert json.loads(page.answered()) == {
        "dtype": "int64",
        "shape": [2],
        "data": [16777217, 16777218],
    }


def test_an_edited_example_has_the_type_of_its_numbers_and_keeps_its_axis(page):
    page.example("directml", 3)
    page["data"].send_keys(Keys.CONTROL, Keys.END)
    page["data"].send_keys(*[Keys.BACKSPACE] * 5, "16777217]]]]")
    assert (value(page, "axis"), value(page, "dtype")) == ("2", "")
    page.set(dialect="v1")
    page.send()
    assert page.sums()[0][0][2] == [14, 15, 12, 16777225]


def test_pasted_data_reset_the_choices_for_earlier_data(page):
    replace_data(page, ROUNDED)
    page["data"].send_keys(Keys.CONTROL, "a")
    page["data"].send_keys(Keys.CONTROL, "x")
    page.set(data=str(MATRIX), axis="1", dtype="float32")
    page["data"].send_keys(Keys.CONTROL, "a")
    page["data"].send_keys(Keys.CONTROL, "v")
    assert value(page, "data") == ROUNDED
    assert (value(page, "axis"), value(page, "dtype")) == ("0", "")


def test_an_edit_keeps_the_choices_of_the_user_that_still_fit(page):
    page.set(data=str(MATRIX), axis="1", dtype="int8")
    page["data"].send_keys(Keys.CONTROL, Keys.END)
    page["data"].send_keys(*[Keys.BACKSPACE] * 3, "7]]")
    page.send()
    assert page.sums()[2] == [9, 15, 17, 24]
    assert (value(page, "axis"), value(page, "dtype")) == ("1", "int8")
    page.set(data="[1, 2]")  # data of one dimension have no axis 1
    assert (value(page, "axis"), value(page, "dtype")) == ("0", "int8")


@pytest.mark.parametrize(
    "text, sums",
    [
        ("1 2 3", [1, 3, 6]),
        ("1   2 -3", [1, 3, 0]),
        ("1 2\n\n 3 4\n", [[1, 2], [4, 6]]),
        ("1\t2\n3\t4", [[1, 2], [4, 6]]),
        ("1|2\n3|4", [[1, 2], [4, 6]]),
        ("1.5 1e3", [1.5, 1001.5]),
    ],
)
def test_numbers_are_read_that_blanks_tabs_or_bars_separate(page, text, sums):
    page.set(data=text, axis="0")
    page.send()
    assert page.sums() == sums


@pytest.mark.parametrize(
    "text, sums",
    [
        ("price,tax\n1,2\n3,4\n", [[1, 2], [4, 6]]),
        ("price\n\n1\n3\n", [1, 4]),
        ("2025\tQ2\n1\t2", [1, 3]),
        ("NaN 1\n1 2", [["NaN", 1], ["NaN", 3]]),
        ("true,false\ntrue,true", [[1, 0], [2, 1]]),
        ("-inf,1e3\n1,2", [["-Infinity", 1000], ["-Infinity", 1002]]),
    ],
)
def test_a_first_line_with_letters_is_a_header_unless_they_are_numbers(page, text, sums):
    page.set(data=text, axis="0")
    page.send()
    assert page.sums() == sums


# ---- refusals ----


def test_a_refusal_marks_the_older_answer_until_there_is_a_new_one(page):
    page.send()
    page.answered()
    assert page["stale"].text == ""
    for fields, field in (({"axis": "9"}, "axis"), ({"axis": "0", "data": "x"}, "data")):
        refused(page, field, **fields)
        assert "belong to an earlier request" in page["stale"].text
        style = "return getComputedStyle(document.getElementById('answer')).borderTopStyle"
        assert page.js(style) == "dashed"
        assert page.sums() == np.cumsum(MATRIX, 0).tolist()
        page.set(data=str(MATRIX), axis="0")
        page.send()
        page.answered()
        assert (page["stale"].text, page.js(style)) == ("", "solid")


def test_only_an_error_of_the_server_says_that_the_server_refused(page):
    error, summary = refused(page, "axis", axis="9")
    assert "axis is 9" in error and summary.startswith("The server refused the request.")
    assert "curl" in snippet(page) and "expected -2" not in snippet(page)
    for fields, field in (
        ({"data": "x"}, "data"),
        ({"data": "1,5"}, "data"),
        ({"data": "[1", "axis": "0"}, "data"),
        ({"data": "[1]", "axis": "x"}, "axis"),
        ({"axis": "0", "shape": "x"}, "shape"),
        ({"shape": "", "offsets": "x"}, "offsets"),
    ):
        error, summary = refused(page, field, **fields)
        assert summary.startswith("The request was not sent."), fields
        assert "refused" not in error + summary
        # An invalid form is not shown as a request.
        assert snippet(page) == "" and not page["snippet"].is_displayed()
        assert page["snippet-hint"].text == "The form does not describe a request yet."
        assert not page["copy"].is_enabled()


def test_an_answer_that_cannot_be_read_is_not_called_a_server_that_is_not_reached(page):
    page.js("window.fetch = async () => new Response('<html>', { status: 200 })")
    page.send()
    until(lambda: page["error"].text.startswith("The answer cannot be read: "))
    page.js("window.fetch = async () => { throw new TypeError('no route'); }")
    page.send()
    until(lambda: page["error"].text == "The server was not reached: no route")


def test_the_hint_of_a_file_says_whether_the_file_is_sent_as_it_is(page, tmp_path):
    np.save(tmp_path / "in.npy", np.arange(6, dtype=np.float32))
    page["file"].send_keys(str(tmp_path / "in.npy"))
    page.answered()
    for name, changed, unchanged in (
        ("shape", "2,3", ""),
        ("dtype", "float64", ""),
        ("offsets", "0,6", ""),
        ("dialect", "v2", "v1"),
    ):
        assert page["data-hint"].text == "in.npy: float32 [6], sent as it is"
        assert "--data-binary" in snippet(page)
        page.set(**{name: changed})
        assert page["data-hint"].text == "in.npy: float32 [6], sent as JSON", name
        assert "application/json" in snippet(page)
        page.set(**{name: unchanged})
    page.set(axis="x")
    assert page["data-hint"].text == "in.npy: float32 [6]"


# ---- saved answers ----


@pytest.fixture
def saved(page, tmp_path):
    """Save the answer in a format with the button's key; returns the file."""
    page.driver.execute_cdp_cmd(
        "Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(tmp_path)}
    )

    def save(name):
        path = tmp_path / f"tally.{name.lower()}"
        path.unlink(missing_ok=True)
        page[f"save-{name}"].send_keys(Keys.ENTER)
        until(lambda: path.exists() and not list(tmp_path.glob("*.crdownload")))
        return path

    return save


@pytest.mark.parametrize("dialect", ["v1", "v2", "directml", "openvino"])
def test_the_answer_is_saved_in_each_format(page, saved, dialect):
    # The console offers no 8-bit integers for DirectML.
    for dtype in ("float32", "int32", "uint32" if dialect == "directml" else "uint8"):
        page.set(data=str(MATRIX), axis="1", dtype=dtype, dialect=dialect)
        page.send()
        answer = page.answered()
        expected = np.cumsum(MATRIX, 1).astype(dtype)
        assert saved("JSON").read_text() == answer
        assert np.array_equal(np.loadtxt(saved("CSV"), delimiter=","), expected)
        array = np.load(saved("NPY"))
        assert (array.dtype, array.tolist()) == (expected.dtype, expected.tolist())


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float32", "float64"])
def test_a_saved_npy_file_has_the_bits_of_the_answer(page, saved, name):
    rng = np.random.default_rng(1)
    dtype = np.dtype("float32" if name == "bfloat16" else name)  # NPY has no bfloat16
    if name == "bfloat16":
        bits = np.arange(0, 1 << 16, 7, dtype="u4") << 16
    elif name == "float16":
        bits = np.arange(0, 1 << 16, 5, dtype="u2")
    else:
        bits = rng.integers(0, 1 << 8 * dtype.itemsize, 999, dtype=f"u{dtype.itemsize}")
    numbers = np.append(bits.view(dtype), np.array([0, -0.0, np.inf, -np.inf, np.nan], dtype))
    # One number per line: each sum is the number itself.
    data = [
        [n if np.isfinite(n) else str(n).replace("inf", "Infinity").replace("nan", "NaN")]
        for n in numbers.tolist()
    ]
    page.set(data=json.dumps(data), axis="1", dtype=name)
    page.send()
    page.answered()
    array = np.load(saved("NPY"))
    assert array.dtype == dtype and array.shape == (len(data), 1)
    assert np.array_equal(array[:, 0], numbers, equal_nan=True)
    assert np.array_equal(np.signbit(array[:, 0]), np.signbit(numbers) & ~np.isnan(numbers))


def test_integers_of_64_bits_and_the_answer_to_a_file_are_saved_exactly(page, saved, tmp_path):
    page.set(data="[9007199254740993, 18446744073709000000]", dtype="uint64")
    page.send()
    page.answered()
    sums = [9007199254740993, (9007199254740993 + 18446744073709000000) % 2**64]
    assert np.load(saved("NPY")).tolist() == sums
    assert saved("CSV").read_text() == "".join(f"{n}\n" for n in sums)
    tensor = np.arange(-4, 4, dtype=np.int8).reshape(2, 2, 2)
    np.save(tmp_path / "in.npy", tensor)
    page.forget()
    page.set(axis="2")
    page["file"].send_keys(str(tmp_path / "in.npy"))
    page.answered()
    array = np.load(saved("NPY"))
    assert array.dtype == np.int8 and np.array_equal(array, np.cumsum(tensor, 2, np.int8))
    sums = np.cumsum(tensor, 2).tolist()
    answer = {"dtype": "int8", "shape": [2, 2, 2], "data": np.ravel(sums).tolist()}
    assert json.loads(saved("JSON").read_text()) == answer


def test_a_saved_csv_file_is_read_again(page, saved):
    page.set(data="[[1, 234], [5, 6]]", axis="0")
    page.send()
    page.answered()
    path = saved("CSV")
    # The console must read the file as CSV: as text, it could read each line as one number.
    assert path.read_text() == "1,234\n6,240\n"
    page.forget()
    page["file"].send_keys(str(path))
    assert page.answered() and page.sums() == [[1, 234], [7, 474]]
    error, _ = refused(page, "data", data="1,234\n6,240")
    assert error.startswith('"1,234" can be one number or several')


# ---- plots ----

BOXES = """
    const box = (e) => { const b = e.getBoundingClientRect(); return [b.left, b.top, b.right, b.bottom]; };
    return [...document.querySelectorAll(arguments[0])].map(box);"""


def boxes(page, selector):
    return np.array(page.js(BOXES, selector))


def overlap(a, b):
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


def wide(mobile):
    return {"width": 320 if mobile else 1100, "height": 900, "mobile": mobile}


@pytest.mark.parametrize("mobile", [False, True])
@pytest.mark.parametrize(
    "numbers",
    [[-1.2345e300, 1.2345e300], [-16777217, 1], [0.001234567, -1e-8], list(range(20000)), [7]],
    ids=["huge", "integers", "small", "long", "one"],
)
def test_no_label_of_an_axis_is_clipped_or_on_another(page, numbers, mobile):
    chromium.emulate(page.driver, **wide(mobile))
    page.set(data=json.dumps(numbers), axis="0", dtype="float64")
    page.send()
    page.answered()
    for figure in ("input", "tally"):
        plot = boxes(page, f"#{figure}-plot svg")[0]
        labels = boxes(page, f"#{figure}-plot svg text")
        assert len(labels) >= 2
        assert np.all(labels[:, :2] >= plot[:2]) and np.all(labels[:, 2:] <= plot[2:]), figure
        for i, label in enumerate(labels):
            assert not any(overlap(label, other) for other in labels[:i]), figure
        # the labels are readable
        assert boxes(page, f"#{figure}-plot svg text")[0][3] - labels[0][1] >= 10


@pytest.mark.parametrize("mobile", [False, True])
@pytest.mark.parametrize("direction", ["", "reverse"])
def test_no_arrow_lies_on_a_number_and_no_number_leaves_its_cell(page, mobile, direction):
    chromium.emulate(page.driver, **wide(mobile))
    for axis in ("0", "1"):
        for scale in (1, 1234567, 1e-7):
            data = (np.arange(-6, 10).reshape(4, 4) * scale).tolist()
            page.set(data=json.dumps(data), axis=axis, direction=direction)
            page.send()
            page.answered()
            arrows = boxes(page, "#tally-plot .arrow")
            cells = boxes(page, "#tally-plot rect")
            numbers = boxes(page, "#tally-plot .figure")
            assert len(arrows) == 4 and len(cells) == 16
            assert len(numbers) == 16 or mobile
            for number in numbers:
                assert not any(overlap(number, arrow) for arrow in arrows), (axis, scale)
                inside = (cells[:, :2] <= number[:2]) & (number[2:] <= cells[:, 2:])
                assert inside.all(axis=1).any(), (axis, scale)


def test_a_cell_shows_all_digits_of_an_integer_where_there_is_room(page):
    page.set(data="[[16777217, 1], [9007199254740993, -3]]", axis="0")
    page.send()
    page.answered()
    texts = [text.text for text in page.all("#tally-plot .figure")]
    assert texts == ["16777217", "1", "9007199271518210", "-2"]


# ---- service and routes ----


def test_the_plots_of_the_service_have_a_time_axis_and_a_range(page, client):
    page.js("location.hash = 'service'")
    for _ in range(20):
        assert client.post_json("/v1/cumsum", {"data": [1, 2]}).status == 200
    ends = (
        "return [...document.querySelectorAll('#tiles .ends')].map(e => e.innerText.split('\\n'))"
    )
    until(lambda: page.js("return samples.length") >= 3, 60)
    rows = page.js(ends)
    assert len(rows) == len(page.all("#tiles figure")) == 6
    for start, span, end in rows:
        assert (start, end) == ("60 s ago", "now")
        assert span.startswith("0 to ")
    assert " GiB" in rows[4][1] or " MiB" in rows[4][1]  # this row shows the memory budget
    places, ages = page.js(
        """
        samples[0].at = samples.at(-1).at - 30000;  // as if the page was hidden after it
        TILES.forEach(drawTile);
        const points = document.querySelectorAll("#tiles polyline")[3].points; // waiting requests
        return [[...points].map((p) => p.x), samples.map((s) => samples.at(-1).at - s.at)];"""
    )
    assert np.allclose(places, 240 - 240 * np.array(ages) / 60000, atol=0.1)
    assert places[0] == pytest.approx(120, abs=0.1)


FIRST_ROUTES = [
    "POST /v1/cumsum",
    "POST /v1/cumsum/totals",
    "POST /v2/models/{model}/infer",
    "POST /v1/directml/cumulative_summation",
    "POST /v1/openvino/cumsum-3",
    "GET /v2/models/{model}",
    "GET /readyz",
    "GET /v1/devices",
    "GET /metrics",
    "GET /version",
]


def test_the_ten_routes_that_are_called_first_are_shown_and_keys_open_the_others(page):
    page.js("location.hash = 'api'")
    until(lambda: page.all("#routes details"))

    def shown():
        texts = [summary.text for summary in page.all("#routes summary") if summary.is_displayed()]
        return [text.split(":")[0] for text in texts]

    *routes, others = shown()
    assert routes == FIRST_ROUTES
    count = int(others.split()[0])
    assert others == f"{count} other routes"
    for _ in range(30):
        press(page, Keys.TAB)
        if page.driver.switch_to.active_element.text == others:
            break
    press(page, Keys.ENTER)
    until(lambda: len(shown()) == 11 + count)
    assert len(set(shown())) == 11 + count


# ---- sizes, schemes, keys ----


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("mobile", [False, True])
def test_a_refusal_after_an_answer_fits_and_is_readable(page, scheme, mobile):
    size = wide(mobile)
    chromium.emulate(page.driver, **size, prefers_color_scheme=scheme)
    page.send()
    page.answered()
    refused(page, "axis", axis="9")
    assert page.js("return document.documentElement.scrollWidth") <= size["width"]
    for name in ("intro", "version", "stale", "error", "answer", "timings"):
        assert page[name].is_displayed() and page[name].text, name
        assert console.contrast(page, page[name]) >= 4.5, name


def test_the_answer_is_reached_and_saved_by_keys_alone(page, saved):
    page["data"].send_keys(Keys.CONTROL, "a")
    press(page, "1 2 3", Keys.TAB)
    for name in ("axis", "send", "save-JSON", "save-CSV", "save-NPY", "copy"):
        for _ in range(20):
            if page.driver.switch_to.active_element.get_attribute("id") == name:
                break
            press(page, Keys.TAB)
        assert page.driver.switch_to.active_element.get_attribute("id") == name
        if name == "send":
            press(page, Keys.ENTER)
            page.answered()
    assert np.load(saved("NPY")).tolist() == [1, 3, 6]
