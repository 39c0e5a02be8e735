"""docs/dialects.md names the test of each statement: these tests exist, and no test of a dialect is
missing."""

import pathlib
import re

TOP = pathlib.Path(__file__).resolve().parents[2]
PAGE = (TOP / "docs" / "dialects.md").read_text()
DIALECTS = ["test_codec_directml.c", "test_directml_tensor.c", "test_codec_openvino.c"]


def cases_of(path):
    return set(re.findall(r"cmocka_unit_test\((\w+)\)", path.read_text()))


def test_every_test_that_the_page_names_exists():
    known = set().union(*(cases_of(path) for path in (TOP / "tests/unit").glob("test_*.c")))
    named = set(re.findall(r"\b[a-z0-9]+(?:_[a-z0-9]+){3,}\b", PAGE))
    assert len(named) > 60 and not named - known


def test_every_test_of_a_dialect_is_on_the_page():
    for name in DIALECTS:
        missing = [test for test in cases_of(TOP / "tests/unit" / name) if test not in PAGE]
        assert not missing, name


def test_every_statement_of_the_operator_pages_has_a_row():
    """Members, constraints, remarks and table rows of both operator pages."""
    for words in (
        "*InputTensor*",
        "*OutputTensor*",
        "*Axis*",
        "*AxisDirection*",
        "*HasExclusiveSum*",
        "in-place",
        "DML_FEATURE_LEVEL_2_1",
        "5_0 and above",
        "4_0 and above",
        "2_1 and above",
        "UINT16",
        "T_AXIS",
        "T: any numeric type",
    ):
        assert any(words in line for line in PAGE.splitlines() if line.startswith("|")), words
