"""Random tensors, layouts and flags through every dialect and format that can express them: each
answer must have the oracle's bits. The test names are the seeds, so that a failure can be
reproduced."""

import numpy as np
import pytest
from support import calls, dialects, dtypes, oracle

CASES = 100  # cases per seed
SIZES = [1, 1, 2, 3, 5, 7]
LONG = [8, 9, 33, 255, 256, 257, 513]


def layout(rng, shape, repeats):
    """Strides of dimensions in any order, with padding; some dimensions of an input may have stride
    0."""
    strides, stride = [0] * len(shape), 1
    for dim in rng.permutation(len(shape)):
        strides[dim] = stride
        stride = stride * max(shape[dim], 1) + int(rng.choice([0, 0, 1, 2]))
    if repeats:
        strides = [0 if rng.random() < 0.2 else stride for stride in strides]
    return [999 if size == 1 else stride for size, stride in zip(shape, strides)]


def random_call(rng):
    dtype = dtypes.ALL[rng.integers(len(dtypes.ALL))]
    shape = [int(size) for size in rng.choice(SIZES, rng.integers(1, 5))]
    if rng.random() < 0.4:
        shape[rng.integers(len(shape))] = int(rng.choice(LONG))
    if rng.random() < 0.25:
        shape[rng.integers(len(shape))] = 0
    strides = layout(rng, shape, repeats=True) if rng.random() < 0.5 else None
    output_strides = layout(rng, shape, repeats=False) if rng.random() < 0.4 else None
    axis = int(rng.integers(-len(shape), len(shape)))
    exclusive, reverse = bool(rng.integers(2)), bool(rng.integers(2))
    buffer = dtype.random(rng, (int(dialects.places_of(shape, strides).max(initial=-1)) + 1,))
    return dialects.Call(dtype, buffer, shape, axis, exclusive, reverse, strides, output_strides)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("send", dialects.ALL)
def test_any_tensor_has_the_oracles_sums(client, send, seed):
    rng = np.random.default_rng(seed)
    sent = 0
    for _ in range(CASES):
        call = random_call(rng)
        answer = send(client, call, rng)
        if answer is None:
            continue
        actual, laid_out = answer
        expected = call.expected(laid_out)
        actual = np.asarray(actual).astype(call.dtype.storage)
        assert oracle.same_bits(call.dtype, actual, expected), vars(call)
        sent += 1
    assert sent > CASES / 4


def test_every_dialect_counts_elements_in_the_same_words(client):
    tensor = {"DataType": "INT32", "Sizes": [3]}
    desc = {
        "InputTensor": tensor,
        "OutputTensor": tensor,
        "Axis": 0,
        "AxisDirection": "INCREASING",
        "HasExclusiveSum": False,
    }
    v2 = {"name": "x", "datatype": "INT32", "shape": [3], "data": [7]}
    openvino = {"precision": "I32", "shape": [3], "data": [7]}
    for path, field, request in (
        ("/v1/cumsum", "data", {"shape": [3], "data": [7]}),
        ("/v1/directml/cumulative_summation", "data", {"desc": desc, "data": [7]}),
        ("/v1/openvino/cumsum-3", "inputs[0].data", {"inputs": [openvino]}),
        ("/v2/models/cumsum/infer", "inputs[0].data", {"inputs": [v2]}),
    ):
        answer = client.post_json(path, request)
        calls.expect_error(answer, 400, "length_mismatch", field, "found 1 element, expected 3")
