"""strides and output_strides: every input layout, and every output layout without overlap."""

import numpy as np
import pytest

from support import calls, dtypes, oracle

FLOAT32 = dtypes.BY_NAME["float32"]
INT32 = dtypes.BY_NAME["int32"]


def buffer_elements(shape, strides):
    if 0 in shape:
        return 0
    return 1 + sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True))


def strided(buffer, shape, strides):
    """A strided view of a flat buffer, as the operator reads it."""
    return np.lib.stride_tricks.as_strided(
        buffer, shape, [stride * buffer.itemsize for stride in strides], writeable=False
    )


def laid_out(dtype, result, strides):
    """The output buffer: elements at the positions given by the strides, zeros between them."""
    buffer = np.zeros(buffer_elements(result.shape, strides), dtype.storage)
    for index in np.ndindex(result.shape):
        buffer[sum(at * stride for at, stride in zip(index, strides, strict=True))] = result[index]
    return buffer


def post_strided(client, dtype, buffer, shape, **attributes):
    path = "/v1/cumsum" + calls.query(dtype=dtype.name, shape=list(shape), **attributes)
    return client.post(path, buffer.tobytes(), calls.RAW)


INPUT_LAYOUTS = [
    ((3, 4), (4, 1)),
    ((3, 4), (1, 3)),
    ((3, 4), (7, 1)),
    ((3, 4), (8, 2)),
    ((3, 4), (0, 1)),
    ((3, 4), (4, 0)),
    ((3, 4), (0, 0)),
    ((3, 4), (1, 1)),
    ((2, 3, 5), (0, 0, 1)),
    ((2, 3, 5), (1, 2, 6)),
    ((4, 1, 6), (6, 99, 1)),
    ((300, 5), (1, 300)),
    ((5, 2000), (2003, 1)),
    ((2000,), (3,)),
    ((2, 2, 2, 2, 3), (3, 48, 6, 24, 1)),
]


@pytest.mark.parametrize("shape, strides", INPUT_LAYOUTS, ids=str)
@pytest.mark.parametrize("dtype", dtypes.ALL, ids=str)
def test_any_input_layout_is_read_through_its_strides(client, dtype, shape, strides):
    rng = np.random.default_rng(2)
    buffer = dtype.random(rng, buffer_elements(shape, strides))
    view = np.ascontiguousarray(strided(buffer, shape, strides))
    for axis in range(len(shape)):
        for exclusive, reverse in [(False, False), (True, True)]:
            answer = post_strided(
                client,
                dtype,
                buffer,
                shape,
                strides=list(strides),
                axis=axis,
                exclusive=exclusive,
                reverse=reverse,
            )
            actual = calls.stored_of(dtype, answer, shape)
            calls.expect_same(dtype, actual, view, axis=axis, exclusive=exclusive, reverse=reverse)


OUTPUT_LAYOUTS = [
    ((3, 4), (4, 1)),
    ((3, 4), (1, 3)),
    ((3, 4), (9, 2)),
    ((3, 4), (100, 7)),
    ((2, 3, 5), (1, 2, 6)),
    ((4, 1, 6), (6, 0, 1)),
    ((70, 300), (1, 71)),
    ((2, 2, 2, 3), (24, 3, 12, 1)),
    ((2, 3), (3000, 2000)),
    ((3, 5), (2, 301)),
]


@pytest.mark.parametrize("shape, strides", OUTPUT_LAYOUTS, ids=str)
@pytest.mark.parametrize("dtype", dtypes.ALL, ids=str)
def test_output_is_laid_out_with_zeros_in_its_gaps(client, dtype, shape, strides):
    stored = dtype.random(np.random.default_rng(4), shape)
    for axis in range(len(shape)):
        for exclusive, reverse in [(False, False), (True, True)]:
            answer = post_strided(
                client,
                dtype,
                stored,
                shape,
                output_strides=list(strides),
                axis=axis,
                exclusive=exclusive,
                reverse=reverse,
            )
            assert answer.status == 200, answer
            result = oracle.cumsum(dtype, stored, axis, exclusive, reverse)
            actual = np.frombuffer(answer.body, dtype.storage)
            assert oracle.same_bits(dtype, actual, laid_out(dtype, result, strides))


def test_input_and_output_layouts_combine(client):
    rng = np.random.default_rng(8)
    shape, strides, output_strides = (30, 40), (1, 30), (50, 1)
    buffer = FLOAT32.random(rng, buffer_elements(shape, strides))
    view = np.ascontiguousarray(strided(buffer, shape, strides))
    for axis in (0, 1):
        answer = post_strided(
            client,
            FLOAT32,
            buffer,
            shape,
            strides=list(strides),
            output_strides=list(output_strides),
            axis=axis,
        )
        assert answer.status == 200, answer
        expected = laid_out(FLOAT32, oracle.cumsum(FLOAT32, view, axis), output_strides)
        assert answer.body == expected.tobytes()


def test_broadcast_along_the_axis_counts_up(client):
    answer = client.post_json(
        "/v1/cumsum",
        {"data": [7], "dtype": "int32", "shape": [5], "strides": [0]},
    )
    assert answer.status == 200 and answer.json()["data"] == [7, 14, 21, 28, 35]


def test_json_strided_answer_is_flat_and_names_its_strides(client):
    document = {
        "data": [1, 2, 3, 4, 5, 6],
        "dtype": "int32",
        "shape": [2, 3],
        "axis": 1,
        "output_strides": [4, 1],
    }
    answer = client.post_json("/v1/cumsum", document)
    assert answer.status == 200, answer
    assert answer.json() == {
        "dtype": "int32",
        "shape": [2, 3],
        "strides": [4, 1],
        "data": [1, 3, 6, 0, 4, 9, 15],
    }


def test_json_strided_input_is_flat_in_memory_order(client):
    document = {
        "data": [1, 4, 2, 5, 3, 6],
        "dtype": "int32",
        "shape": [2, 3],
        "strides": [1, 2],
        "axis": 1,
    }
    answer = client.post_json("/v1/cumsum", document)
    assert answer.status == 200, answer
    assert answer.json() == {"dtype": "int32", "shape": [2, 3], "data": [1, 3, 6, 4, 9, 15]}


def test_json_buffer_may_be_longer_than_the_strides_need(client):
    document = {"data": [1, 9, 2, 9, 3, 9, 9], "dtype": "int32", "shape": [3], "strides": [2]}
    answer = client.post_json("/v1/cumsum", document)
    assert answer.status == 200 and answer.json()["data"] == [1, 3, 6]


@pytest.mark.parametrize(
    "attributes, code, field",
    [
        ({"strides": [4]}, "invalid_strides", "strides"),
        ({"strides": [4, 1, 1]}, "invalid_strides", "strides"),
        ({"strides": [-4, 1]}, None, None),
        ({"strides": [9223372036854775807, 1]}, None, None),
        ({"strides": [9223372036854775808, 1]}, None, None),
        ({"output_strides": [4]}, "invalid_strides", "output_strides"),
        ({"output_strides": [0, 1]}, "invalid_strides", "output_strides"),
        ({"output_strides": [1, 1]}, "invalid_strides", "output_strides"),
        ({"output_strides": [3, 1]}, "invalid_strides", "output_strides"),
        ({"output_strides": [3, 2]}, "invalid_strides", "output_strides"),
        ({"output_strides": [-4, 1]}, None, None),
        ({"output_strides": [4, "1"]}, None, None),
        ({"output_strides": [4, 1.5]}, None, None),
    ],
    ids=str,
)
def test_impossible_strides_are_refused(client, attributes, code, field):
    document = {"data": list(range(12)), "dtype": "int32", "shape": [3, 4], **attributes}
    answer = client.post_json("/v1/cumsum", document)
    if answer.status == 413:
        calls.expect_error(answer, 413)
    else:
        calls.expect_error(answer, 400, code, field)


def test_interleaved_output_without_overlap_is_accepted(client):
    """Strides (2, 3) over a shape of 2 x 2 give the offsets 0, 2, 3 and 5, which are all
    different."""
    stored = np.array([[1, 2], [3, 4]], np.int32)
    answer = post_strided(client, INT32, stored, (2, 2), output_strides=[2, 3], axis=0)
    assert answer.status == 200, answer
    assert np.frombuffer(answer.body, np.int32).tolist() == [1, 0, 4, 2, 0, 6]


def test_raw_buffer_of_the_wrong_length_is_refused(client):
    for elements in (0, 5, 7):
        answer = post_strided(client, INT32, np.zeros(elements, np.int32), (2, 2), strides=[3, 2])
        calls.expect_error(answer, 400, "length_mismatch")
