"""The console's further attributes, operated by keys, and the command that the console shows;
booleans; types of NPY files."""

import base64
import io
import json

import numpy as np
import pytest
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys

from support import browser as chromium
from support import console
from support.console import run_code
from support.npy_files import NAMES, NO_TYPES, NOT_SUMMED, ORDERED, USUAL, file_of
from support.waiting import until

driver, pages, page = console.driver, console.pages, console.page

FORM = {"axis": "0", "dtype": "", "shape": "", "dialect": "v1"}
MORE = ("output_dtype", "nan", "initial", "include_initial", "offsets")
USED = {  # by field: the form, the keys, the attribute, the type and the sums of the answer
    "output_dtype": (
        {"data": "[200,100]", "dtype": "uint8"},
        ["int64"],
        "int64",
        ("int64", [200, 300]),
    ),
    "nan": (
        {"data": '[1.5,"NaN",2]'},
        [Keys.ARROW_DOWN, Keys.ARROW_DOWN],
        "skip",
        ("float64", [1.5, "NaN", 3.5]),
    ),
    "initial": (
        {"data": "[1,2,3]"},
        ["9007199254740993"],
        9007199254740993,
        ("int64", [9007199254740994, 9007199254740996, 9007199254740999]),
    ),
    "include_initial": ({"data": "[1,2,3]"}, [Keys.SPACE], True, ("int64", [0, 1, 3, 6])),
    "offsets": (
        {"data": "[1,2,3,4,5]"},
        ["0, 2,02,5"],
        [0, 2, 2, 5],
        ("int64", [1, 3, 3, 7, 12]),
    ),
}


def press(page, *keys):
    ActionChains(page.driver).send_keys(*keys).perform()


def focused(page):
    return page.js("return document.activeElement.id || document.activeElement.textContent")


def tab_to(page, name):
    """Press Tab until the field has the focus."""
    for _ in range(30):
        press(page, Keys.TAB)
        if focused(page) == name:
            return
    raise AssertionError(f"the key Tab does not reach {name}")


def open_more(page):
    page.js("document.getElementById('dialect').focus()")
    tab_to(page, "More")
    press(page, Keys.ENTER)


def snippet(page):
    return page["snippet"].get_attribute("textContent")


def shown_body(page):
    """The JSON in the displayed command."""
    text = snippet(page)
    return json.loads(text[text.index("-d '") + 4 : text.rindex("'")])


def captions(page):
    return [page[f"{figure}-plot"].text.split(",")[0] for figure in ("input", "tally")]


def test_the_further_fields_are_hidden_until_keys_open_them(page):
    def states():
        """The state of "More" for a screen reader."""
        tree = page.driver.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]
        return [
            {p["name"]: p["value"]["value"] for p in node["properties"]}["expanded"]
            for node in tree
            if node.get("role", {}).get("value") == "DisclosureTriangle"
            and node["name"]["value"] == "More"
        ]

    assert states() == [False]
    assert not any(page[name].is_displayed() for name in MORE)
    open_more(page)
    until(lambda: states() == [True])
    assert all(page[name].is_displayed() for name in MORE)
    for name in MORE:
        press(page, Keys.TAB)
        assert focused(page) == name


@pytest.mark.parametrize("name", USED)
def test_each_field_is_used_by_keys_and_the_shown_command_has_it(page, tmp_path, name):
    fields, keys, value, (dtype, sums) = USED[name]
    page.set(**FORM | fields)
    plain = shown_body(page)
    assert not set(MORE) & set(plain)  # present only when they are set
    open_more(page)
    tab_to(page, name)
    press(page, *keys)
    assert shown_body(page) == {**plain, name: value}
    page.forget()
    tab_to(page, "send")
    press(page, Keys.ENTER)
    answer = page.answered()
    assert json.loads(answer) == {"dtype": dtype, "shape": [len(sums)], "data": sums}
    assert captions(page)[1] == f"Tally {dtype} [{len(sums)}]"
    assert run_code("curl", snippet(page), tmp_path).strip() == answer
    drawn = [number for _, number in page.titles("tally", "circle")]
    assert drawn == [float(number) for number in sums if number != "NaN"]


def test_all_together_give_the_same_sums_in_v1_and_v2(page, tmp_path):
    everything = {"output_dtype": "float64", "nan": "zero", "initial": "0.5"}
    page.set(**FORM | {"data": '[[1,"NaN"],[3,4]]', "axis": "1", "dtype": "float32"} | everything)
    page.set(include_initial=True)
    for dialect in ("v1", "v2"):
        page.set(dialect=dialect)
        page.send()
        answer = page.answered()
        tensor = json.loads(answer)
        tensor = tensor if dialect == "v1" else tensor["outputs"][0]
        assert tensor["shape"] == [2, 3]
        assert np.ravel(tensor["data"]).tolist() == [0.5, 1.5, 1.5, 0.5, 3.5, 7.5]
        assert captions(page)[1].startswith("Tally float64" if dialect == "v1" else "Tally FP64")
        assert run_code("curl", snippet(page), tmp_path).strip() == answer
        assert [len(page.titles(figure, "rect")) for figure in ("input", "tally")] == [4, 6]


def test_each_segment_has_its_initial_sum_in_v1_and_v2(page, tmp_path):
    page.set(**FORM | {"data": "[[1,2,3],[4,5,6]]", "axis": "1", "offsets": "0,1,1,3"})
    page.set(include_initial=True, initial="10")
    for dialect in ("v1", "v2"):
        page.set(dialect=dialect)
        page.send()
        answer = page.answered()
        tensor = json.loads(answer)
        tensor = tensor if dialect == "v1" else tensor["outputs"][0]
        assert tensor["shape"] == [2, 6]
        assert np.ravel(tensor["data"]).tolist() == [10, 11, 10, 10, 12, 15, 10, 14, 10, 10, 15, 21]
        assert run_code("curl", snippet(page), tmp_path).strip() == answer
        assert [len(page.titles(figure, "rect")) for figure in ("input", "tally")] == [6, 12]


def test_an_npy_file_with_offsets_goes_as_json(page, tmp_path):
    np.save(tmp_path / "in.npy", np.arange(5, dtype=np.float32))
    page.set(**FORM | {"offsets": "0,3,5"})
    page["file"].send_keys(str(tmp_path / "in.npy"))
    assert json.loads(page.answered()) == {
        "dtype": "float32",
        "shape": [5],
        "data": [0, 1, 3, 3, 7],
    }
    assert run_code("curl", snippet(page), tmp_path).strip() == page.answered()


def test_the_initial_value_may_be_one_that_is_not_finite(page):
    page.set(**FORM | {"data": "[1.5]", "initial": "-Infinity"})
    page.send()
    page.answered()
    assert page.sums() == ["-Infinity"]


@pytest.mark.parametrize("data", ["[true,false,true]", "true,FALSE,True", "true\nfalse\ntrue"])
def test_true_and_false_are_read_as_bool(page, data):
    for dialect, dtype in (("v1", "int64"), ("v2", "INT64"), ("openvino", "I64")):
        page.set(**FORM | {"data": data, "dialect": dialect})
        page.send()
        assert page.answered().rstrip("]}").endswith('"data":[1,1,2')
        assert captions(page) == ["Input bool [3]", f"Tally {dtype} [3]"]
        assert [number for _, number in page.titles("input", "circle")] == [1, 0, 1]


def test_null_is_drawn_as_the_nan_that_it_is(page):
    for dialect in ("v1", "v2"):
        page.set(**FORM | {"data": "[1, null, 2]", "dialect": dialect, "nan": "zero"})
        page.send()
        assert '"data":[1.0,1.0,3.0]' in page.answered()
        assert [place for place, _ in page.titles("input", "circle")] == ["0", "2"]


def test_the_input_has_the_type_that_the_server_gives_it(page):
    for data, dtype in (("[1]", "int64"), ("[1, 2.0]", "float64"), ("[1e2]", "float64")):
        page.set(**FORM | {"data": data})
        page.send()
        assert json.loads(page.answered())["dtype"] == dtype
        assert captions(page)[0].startswith(f"Input {dtype} [")


def test_an_npy_file_of_booleans_is_read_and_its_attributes_go_into_the_query(page, tmp_path):
    array = np.array([[True, False, True], [False, True, True]])
    np.save(tmp_path / "in.npy", array)
    page.set(**FORM | {"axis": "1", "output_dtype": "uint16", "initial": "7"})
    page.set(include_initial=True)
    page["file"].send_keys(str(tmp_path / "in.npy"))
    assert json.loads(page.answered()) == [7, 8, 8, 9, 7, 7, 8, 9]
    assert "bool [2, 3]" in page["data-hint"].text
    assert captions(page) == ["Input bool [2", "Tally uint16 [2"]
    assert [n for _, n in page.titles("input", "rect")] == array.ravel().tolist()
    assert "?axis=1&output_dtype=uint16&include_initial=true&initial=7'" in snippet(page)
    run_code("curl", snippet(page), tmp_path)
    sums = np.load(tmp_path / "tally.npy")
    assert (sums.dtype, sums.tolist()) == (np.uint16, [[7, 8, 8, 9], [7, 7, 8, 9]])
    page.set(dialect="v2")
    page.send()
    assert '"datatype":"UINT16"' in page.answered()


REFUSED = [
    ({"exclusive": True, "include_initial": True}, "include_initial", "are both true"),
    ({"initial": '1,5"'}, "initial", "expected a number"),
    ({"initial": "1.5", "dialect": "v2"}, "initial", "expected a whole number"),
    ({"output_dtype": "int8"}, "output_dtype", "must hold every element exactly"),
    ({"output_dtype": "int8", "dialect": "v2"}, "output_dtype", "must hold every element exactly"),
    ({"nan": "zero", "dialect": "directml"}, "nan", "this dialect has no nan"),
    ({"include_initial": True, "dialect": "openvino"}, "include_initial", "or choose Tally v1"),
    ({"offsets": "0,3"}, "offsets", "beyond the axis, which has the size 2"),
    ({"offsets": "0,-1,2", "dialect": "v2"}, "offsets", "offsets never decrease"),
    ({"offsets": "0;2"}, "offsets", "expected where each segment begins"),
    ({"offsets": "0,9999999999999999999", "dialect": "v2"}, "offsets", "where each segment begins"),
    ({"offsets": "0,2", "dialect": "directml"}, "offsets", "this dialect has no offsets"),
]


@pytest.mark.parametrize("fields, name, says", REFUSED)
def test_a_refusal_opens_the_further_fields_and_stands_at_its_own(page, fields, name, says):
    page.set(**FORM | {"data": "[1,2]"} | fields)
    page["send"].click()
    until(lambda: says in page[f"{name}-error"].text)
    assert page[name].is_displayed() and page[name].get_attribute("aria-invalid") == "true"
    assert focused(page) == name


def test_an_example_is_the_operators_page_alone(page):
    page.set(nan="skip", initial="3", output_dtype="float64", include_initial=True, offsets="0")
    assert json.loads(page.example("openvino", 0))["outputs"][0]["data"] == [1, 3, 6, 10, 15]
    page.set(dialect="v1")
    assert not set(MORE) & set(shown_body(page))


def test_the_further_fields_fit_a_phone(page):
    chromium.emulate(page.driver, width=320, height=740, mobile=True)
    open_more(page)
    until(lambda: page["include_initial"].is_displayed())
    assert page.js("return document.documentElement.scrollWidth") == 320


# ---- types of NPY files, as the server accepts them (test_npy_descriptors.py) ----

READ = """
    return arguments[0].map((file) => {
        try {
            const { dtype, shape, numbers } = readNpy(Uint8Array.from(atob(file), (c) => c.charCodeAt(0)).buffer);
            return [dtype, shape, numbers];
        } catch (error) {
            return [error.field, error.message];
        }
    });"""


def read(page, files):
    return page.js(READ, [base64.b64encode(file).decode() for file in files])


def test_every_spelling_of_a_type_is_read_as_numpy_reads_it(page):
    literals = [repr(d) for d in [*ORDERED, *USUAL, *NAMES, "?", "<?", "bool", "b1", "|b1"]]
    literals += ["u'<f4'", 'u">i2"', "U'float64'", "u'l'"]
    files, arrays = [], []
    for literal in literals:
        for fortran in (False, True):
            dtype = np.dtype(literal.lstrip("uU").strip("'\""))
            numbers = np.array([1, 0, 1, 1, 0, 1] if dtype == bool else [3, 1, 4, 1, 5, 9], dtype)
            files.append(file_of(literal, numbers.tobytes(), fortran))
            arrays.append(np.load(io.BytesIO(files[-1])))
    for file, array, found in zip(files, arrays, read(page, files), strict=True):
        texts = [json.dumps(number) for number in array.ravel().tolist()]
        assert found == [
            array.dtype.newbyteorder("=").name,
            [2, 3],
            [text.removesuffix(".0") for text in texts],
        ], file


def test_a_header_as_python_2_wrote_it_is_read(page):
    header = b'{"descr" : u\'>i2\', "shape": (2L, 1L,), "fortran_order" :True}\n'
    file = b"\x93NUMPY\x01\x00" + bytes([len(header), 0]) + header + b"\x00\x07\x01\x00"
    assert read(page, [file]) == [["int16", [2, 1], ["7", "256"]]]


def test_the_console_refuses_a_file_whose_type_is_not_numeric(page):
    literals = [repr(descr) for descr in NO_TYPES + NOT_SUMMED + ["Uint8", "<", ""]]
    literals += ["[('x', '<f4')]"]
    answers = read(page, [file_of(literal, bytes(6 * 32)) for literal in literals])
    for literal, (field, message) in zip(literals, answers, strict=True):
        assert field == "dtype" and "no numbers that Tally sums" in message, literal
