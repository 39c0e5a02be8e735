"""A model of output_dtype, nan, initial, include_initial and offsets on top of the oracle, and
requests with them in every format.

A request is a Case; `expected(case)` returns its sums as stored in the type of the output.
Elements of type bool are bytes."""

import dataclasses
import itertools
import json

import numpy as np

from . import calls, dtypes, oracle

BOOL = "bool"


@dataclasses.dataclass
class Case:
    came: object  # input type: a Dtype, or BOOL
    stored: np.ndarray
    out: object  # output type: a Dtype
    axis: int = 0
    exclusive: bool = False
    reverse: bool = False
    nan: str = "propagate"
    initial: object = None  # a number of the type `out`
    include_initial: bool = False
    offsets: object = None  # offsets of segments; None: one segment

    @property
    def name(self):
        return self.came if self.came == BOOL else self.came.name

    @property
    def kserve(self):
        return "BOOL" if self.came == BOOL else self.came.kserve

    @property
    def usual(self):
        """The default type of the output."""
        return dtypes.BY_NAME["int64"] if self.came == BOOL else self.came

    def words(self):
        """The attributes that differ from their defaults, as in JSON."""
        words = {"axis": self.axis}
        if self.out is not self.usual:
            words["output_dtype"] = self.out.name
        for name, default in (("exclusive", False), ("reverse", False), ("nan", "propagate")):
            if getattr(self, name) != default:
                words[name] = getattr(self, name)
        if self.initial is not None:
            words["initial"] = self.out.json_values(self.initial_stored())
        if self.include_initial:
            words["include_initial"] = True
        return words

    def shape(self):
        """The shape of the output."""
        shape = list(self.stored.shape)
        lines = 1 if self.offsets is None else len(self.offsets) - 1
        shape[self.axis] += lines * self.include_initial
        return tuple(shape)

    def json_offsets(self):
        return {} if self.offsets is None else {"offsets": [int(offset) for offset in self.offsets]}

    def front(self):
        """The offsets in front of a raw or NPY body, and the header that announces them."""
        if self.offsets is None:
            return b"", {}
        front = np.array(self.offsets, "<i8").tobytes()
        return front, {"Tally-Offsets-Length": str(len(front))}

    def segments(self):
        """Yields a case for each segment."""
        for begin, end in itertools.pairwise(self.offsets):
            where = (slice(None),) * (self.axis % self.stored.ndim) + (slice(begin, end),)
            stored = np.ascontiguousarray(self.stored[where])
            yield dataclasses.replace(self, stored=stored, offsets=None)

    def initial_stored(self):
        return self.out.store(np.array(self.initial))


def widened(case):
    """The elements in the type of the output, and a mask of those that were NaN."""
    values = case.stored if case.came == BOOL else case.came.load(case.stored)
    if not case.out.is_float:
        return values.astype(case.out.storage), np.zeros(values.shape, bool)
    was_nan = np.isnan(values)
    if case.nan != "propagate":
        values = np.where(was_nan, 0.0, values)
    return case.out.store(values), was_nan


def elements(case):
    """The elements that are summed; the initial value is the first element of each line."""
    stored, was_nan = widened(case)
    if case.initial is None:
        return stored, was_nan
    edge = _edge(case)
    edge[...] = case.initial_stored()
    both = [stored, edge] if case.reverse else [edge, stored]
    return np.concatenate(both, case.axis), was_nan


def _edge(case):
    shape = list(case.stored.shape)
    shape[case.axis] = 1
    return np.zeros(shape, case.out.storage)


def expected(case):
    if case.offsets is not None:
        sums = [expected(segment) for segment in case.segments()]
        return np.concatenate([np.empty_like(sums[0], shape=_no_sums(case)), *sums], case.axis)
    added, was_nan = elements(case)
    sums = oracle.cumsum(case.out, added, case.axis, case.exclusive, case.reverse)
    size = case.stored.shape[case.axis]
    if case.initial is not None:
        mine = slice(0, size) if case.reverse else slice(1, size + 1)
    elif case.include_initial:
        zero = _edge(case)
        sums = np.concatenate([sums, zero] if case.reverse else [zero, sums], case.axis)
        mine = slice(0, size) if case.reverse else slice(1, size + 1)
    else:
        mine = slice(0, size)
    where = (slice(None),) * (case.axis % case.stored.ndim) + (mine,)
    if case.nan == "skip" and case.out.is_float:
        sums[where] = np.where(was_nan, case.out.store(np.array(np.nan)), sums[where])
    return np.ascontiguousarray(sums if case.include_initial else sums[where])


def _no_sums(case):
    shape = list(case.stored.shape)
    shape[case.axis] = 0
    return shape


# ---- the same request in every format ----


def json_data(case, stored):
    if case.came == BOOL:
        return stored.astype(bool).tolist()
    return case.came.json_values(stored)


def as_raw(client, case):
    query = calls.query(dtype=case.name, shape=list(case.stored.shape), **case.words())
    front, headers = case.front()
    return client.post("/v1/cumsum" + query, front + case.stored.tobytes(), calls.RAW, headers)


def as_npy(client, case):
    array = case.stored.view(bool) if case.came == BOOL else case.stored
    path = "/v1/cumsum" + calls.query(**case.words())
    front, headers = case.front()
    return client.post(path, front + calls.npy_bytes(array), calls.NPY, headers)


def as_json(client, case):
    document = {
        "data": json_data(case, case.stored),
        "shape": list(case.stored.shape),
        **case.words(),
        **case.json_offsets(),
    }
    return client.post_json("/v1/cumsum", {"dtype": case.name, **document})


def as_flat_json(client, case):
    document = {"data": json_data(case, case.stored.reshape(-1)), "shape": list(case.stored.shape)}
    document |= case.words() | case.json_offsets()
    return client.post_json("/v1/cumsum", {"dtype": case.name, **document})


def as_v2_json(client, case):
    x = {"name": "x", "shape": list(case.stored.shape), "datatype": case.kserve}
    x["data"] = json_data(case, case.stored.reshape(-1))
    inputs = [x]
    if case.offsets is not None:
        offsets = {"name": "offsets", "shape": [len(case.offsets)], "datatype": "INT64"}
        inputs.append(offsets | {"data": case.json_offsets()["offsets"]})
    document = {"inputs": inputs, "parameters": case.words()}
    return client.post_json("/v2/models/cumsum/infer", document)


def as_v2_binary(client, case):
    """Send the case as a v2 request. Its output type is the datatype of the requested output,
    not a parameter."""
    size = {"binary_data_size": case.stored.nbytes}
    x = {"name": "x", "shape": list(case.stored.shape), "datatype": case.kserve, "parameters": size}
    words = case.words()
    output = {"name": "y", "parameters": {"binary_data": True}}
    if words.pop("output_dtype", None):
        output["datatype"] = case.out.kserve
    inputs, (front, _) = [x], case.front()
    if case.offsets is not None:  # the offsets are an input before x
        size = {"binary_data_size": len(front)}
        offsets = {"name": "offsets", "shape": [len(case.offsets)], "datatype": "INT64"}
        inputs.insert(0, offsets | {"parameters": size})
    head = json.dumps({"inputs": inputs, "outputs": [output], "parameters": words}).encode()
    headers = {"Inference-Header-Content-Length": str(len(head))}
    body = head + front + case.stored.tobytes()
    return client.post("/v2/models/cumsum/infer", body, calls.RAW, headers)


FORMATS = {
    "raw": as_raw,
    "npy": as_npy,
    "json": as_json,
    "flat json": as_flat_json,
    "v2 json": as_v2_json,
    "v2 binary": as_v2_binary,
}


def fits(name, case):
    """Whether a format can express the case: NPY has no bfloat16."""
    return name != "npy" or "bfloat16" not in (case.name, case.out.name)


def answered(case, answer):
    """The stored sums of an answer in any format, after checking the answer's type and shape."""
    assert answer.status == 200, (case, answer)
    head = answer.headers.get("Inference-Header-Content-Length")
    if head is None and b'"model_name"' not in answer.body:
        return calls.stored_of(case.out, answer, case.shape())
    (y,) = json.loads(answer.body[: int(head) if head else None])["outputs"]
    assert y["datatype"] == case.out.kserve and y["shape"] == list(case.shape()), y
    if head is None:
        return case.out.from_json(y["data"]).reshape(case.shape())
    assert y["parameters"]["binary_data_size"] == len(answer.body) - int(head)
    return np.frombuffer(answer.body[int(head) :], case.out.storage).reshape(case.shape())


def check(client, case, name="raw"):
    actual = answered(case, FORMATS[name](client, case))
    assert oracle.same_bits(case.out, actual, expected(case)), (name, case, actual, expected(case))
