"""NPY headers with every spelling of a type: the server and numpy.load() must read the same bytes
alike."""

import io

import ml_dtypes
import numpy as np
import pytest
from support import calls
from support.npy_files import NAMES, NO_TYPES, NOT_SUMMED, ORDERED, USUAL, file_of


def post(client, file):
    return client.post("/v1/cumsum?axis=1", file, calls.NPY)


def expect_as_numpy_reads(client, literal, dtype, fortran=False):
    data = np.array([3, 1, 4, 1, 5, 9], dtype).tobytes()
    file = file_of(literal, data, fortran)
    array = np.load(io.BytesIO(file))
    answer = post(client, file)
    assert answer.status == 200, (literal, answer)
    sums = calls.npy_array(answer.body)
    assert sums.dtype == array.dtype.newbyteorder("<"), literal
    assert np.array_equal(sums, np.cumsum(array, 1, array.dtype)), literal


def test_every_spelling_of_a_type_is_read_as_numpy_reads_it(client):
    for descr in ORDERED + USUAL + NAMES:
        for fortran in (False, True):
            expect_as_numpy_reads(client, repr(descr), np.dtype(descr), fortran)


@pytest.mark.parametrize("literal", ["u'<f4'", 'u">i2"', "U'float64'", "u'l'"])
def test_a_unicode_literal_of_python_2_is_read_as_numpy_reads_it(client, literal):
    expect_as_numpy_reads(client, literal, np.dtype(literal[2:-1]))


def test_a_descriptor_that_numpy_refuses_is_refused(client):
    for descr in NO_TYPES:
        file = file_of(repr(descr), bytes(48))
        with pytest.raises(ValueError):
            np.load(io.BytesIO(file))
        calls.expect_error(post(client, file), 400, "invalid_dtype", "descr", "expected f2")


def test_types_that_have_no_sums_are_refused_in_every_spelling(client):
    for descr in NOT_SUMMED:
        file = file_of(repr(descr), bytes(6 * np.dtype(descr).itemsize))
        calls.expect_error(post(client, file), 400, "invalid_dtype", "descr")


@pytest.mark.parametrize("descr", ["?", "bool", "<?", "b1"])
def test_booleans_are_answered_alike_in_every_spelling(client, descr):
    data = bytes([1, 0, 1, 1, 0, 1])
    answer, usual = post(client, file_of(repr(descr), data)), post(client, file_of("'|b1'", data))
    assert answer.status == usual.status
    if usual.status == 200:
        assert answer.body == usual.body
    else:
        says = usual.json()["error"].replace("|b1", descr)
        assert calls.expect_error(answer, 400, "invalid_dtype")["error"] == says


@pytest.mark.parametrize(
    "name", ["float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu", "int4", "uint4", "int2", "bfloat16"]
)
def test_types_that_npy_forgets_are_not_guessed_and_the_advice_keeps_the_sums(client, name):
    dtype = np.dtype(getattr(ml_dtypes, name))
    array = np.tile(np.array([1, 1, 0.5 if name == "float8_e8m0fnu" else 0], dtype), (2, 300))
    answer = post(client, calls.npy_bytes(array))
    says = ("the file does not say which type of", "before it was saved")
    error = calls.expect_error(answer, 400, "invalid_dtype", "descr", says)["error"]
    exact = np.cumsum(array.astype(np.float64), 1)
    if name == "bfloat16":
        assert "x.tobytes() as application/octet-stream with dtype=bfloat16 and its shape" in error
        path = f"/v1/cumsum?axis=1&dtype=bfloat16&shape={array.shape[0]},{array.shape[1]}"
        sums = np.frombuffer(client.post(path, array.tobytes(), calls.RAW).body, dtype)
        assert np.array_equal(sums.reshape(array.shape), exact.astype(dtype))
        return
    kind = "int64" if "int" in name else "float32"
    assert f"x.astype('{kind}') if" in error
    sums = calls.npy_array(post(client, calls.npy_bytes(array.astype(kind))).body)
    assert np.array_equal(sums, exact)
