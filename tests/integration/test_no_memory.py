"""Allocations that fail, a single one or all from one on: every answer is complete or an error, and
all memory of the request is freed."""

import functools
import gzip
import http.client
import itertools
import json
import resource
import select
import struct
import zlib

import numpy as np
import pytest

from support import calls
from support.http import post_bytes
from support.tallyd import MODE, TOP, Tallyd
from support.waiting import until

LIBRARY = TOP / "build/release/tests/libfail_memory.so"
LONG = np.random.default_rng(1).standard_normal(50_000).astype(np.float32)
LONG_RAW = f"/v1/cumsum?dtype=float32&shape={LONG.size}"
# descriptors of one more libmicrohttpd daemon, which starts if hundreds of allocations fail
FEW_FILES = 8
PACKED = {"Content-Encoding": "gzip", "Accept-Encoding": "gzip"}
UNPACK = {None: bytes, "gzip": gzip.decompress, "deflate": zlib.decompress}


MIB = 1 << 20
# LARGE exceeds the 8 MiB that a body of unknown length gets first. With slices of 2 MiB, LARGE
# has as many slices as 20 MiB with the default size; each slice makes the same allocations.
LARGE = 10 * MIB
SLICES = ("--slice-bytes", "2MiB")
# A part of this size with a long carry makes 31 large allocations; one of 15 MiB makes ten.
LARGER = 20 * MIB
KEPT_SLABS = 256 * MIB  # more than any request in this file holds


def framed(document, array):
    """Returns body and header."""
    head = calls.json_body(document)
    return head + array.tobytes(), {"Inference-Header-Content-Length": str(len(head))}


def v2_binary():
    tensor = {"name": "x", "shape": [LONG.size], "datatype": "FP32"}
    tensor["parameters"] = {"binary_data_size": LONG.nbytes}
    output = {"name": "y", "parameters": {"binary_data": True}}
    return framed({"inputs": [tensor], "outputs": [output]}, LONG)


OFFSETS = np.arange(0, LONG.size + 1, 5, "<i8").tobytes()
SEGMENTS = {"Content-Type": calls.RAW, "Tally-Offsets-Length": str(len(OFFSETS))}
JSON = {"Content-Type": calls.JSON}
RAW = {"Content-Type": calls.RAW}
CALLS = {
    "json": ("/v1/cumsum", b'{"data":[[1,2],[3,4]],"axis":1}', JSON),
    "long json": ("/v1/cumsum", json.dumps({"data": LONG.tolist()}).encode(), JSON),
    "raw": (LONG_RAW, LONG.tobytes(), RAW),
    "packed": (LONG_RAW, gzip.compress(LONG.tobytes(), 1), {**RAW, **PACKED}),
    "part": (LONG_RAW + "&part=first", LONG.tobytes(), RAW),
    "segments": (LONG_RAW + "&initial=1", OFFSETS + LONG.tobytes(), SEGMENTS),
    "segments of json": ("/v1/cumsum", b'{"data":[1,2,3],"offsets":[0,1,3]}', JSON),
    "npy": ("/v1/cumsum", calls.npy_bytes(LONG), {"Content-Type": calls.NPY}),
    "v2": ("/v2/models/cumsum/infer", *v2_binary()),
    "v2 index": ("/v2/repository/index", b"{}", JSON),
    "v2 statistics": ("/v2/models/cumsum/stats", None, {}),
    "console": ("/", None, {"Accept": "text/html"}),
    "page": ("/metrics", None, {}),
}


class Service(Tallyd):
    def __init__(self, log):
        self.left = log.with_suffix(".left")
        self.fail(0)
        env = {"LD_PRELOAD": str(LIBRARY), "FAIL_MEMORY": str(self.left)}
        super().__init__(log, SLICES, env=env)

    def fail(self, nth, least=0, lasting=False):
        """Let the nth allocation of at least `least` bytes fail, and all later ones if `lasting`;
        0: none."""
        with open(self.left, "r+b" if self.left.exists() else "wb") as file:
            file.write(struct.pack("<qqq", 0, least, 0))
            file.flush()
            file.seek(0)
            file.write(struct.pack("<qqq", nth, least, nth > 0 and lasting))

    def failed(self):
        return self.left.read_bytes()[:8] == bytes(8)

    def ask(self, path, body, headers):
        client = self.client()
        try:
            return client.request("GET" if body is None else "POST", path, body, headers)
        finally:
            client.close()

    def ask_large(self, path, body, headers):
        """Send a request, and stop sending when the answer begins: a refusal may arrive before
        all of the body is sent."""
        fields = [*headers.items()]
        pieces = memoryview(post_bytes(path, body, fields) if body is not None else b"")
        if "Transfer-Encoding" in headers:
            lines = "".join(f"{name}: {value}\r\n" for name, value in fields)
            pieces = memoryview(f"POST {path} HTTP/1.1\r\nHost: x\r\n{lines}\r\n".encode() + body)
        with self.wire(60) as wire:
            while pieces:
                readable, writable, _ = select.select([wire.socket], [wire.socket], [], 60)
                if readable:
                    break
                pieces = pieces[wire.socket.send(pieces[:MIB]) :] if writable else pieces
            return wire.answer()

    def forget_slabs(self):
        """Fill the memory, so that the service gives back the slabs that it keeps for reuse,
        including those of the last request once it has ended."""
        until(lambda: self.metric("tally_memory_blocks") == 0)
        self.fail(1, MIB, lasting=True)
        path = f"/v1/cumsum?dtype=int8&shape={KEPT_SLABS}&strides=0"
        calls.expect_error(self.ask(path, b"\x01", RAW), 503, "out_of_memory")
        self.fail(0)

    def is_idle(self):
        blocks = (
            "tally_memory_reserved_bytes",
            "tally_memory_promised_bytes",
            "tally_memory_blocks",
        )
        mine = ("tally_active_requests", "tally_connections")
        return all(self.metric(name) == 0 for name in blocks) and all(
            self.metric(name) == 1 for name in mine
        )


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    if MODE != "release":
        pytest.skip("sanitizers have their own allocator")
    service = Service(tmp_path_factory.mktemp("no_memory") / "log")
    files = service.open_files()
    yield service
    service.check_alive()
    until(lambda: service.open_files() < files + FEW_FILES)
    service.stop()


def fields(answer):
    """The answer's fields except those of the compression, which may be omitted, and those that
    differ in every answer."""
    own = ("Date", "X-Request-Id", "Server-Timing")
    packing = ("Content-Encoding", "Content-Length", "Vary")
    return {
        name: "" if name in own else value
        for name, value in answer.headers.items()
        if name not in packing
    }


def content(answer):
    return UNPACK[answer.headers["Content-Encoding"]](answer.body)


@pytest.mark.parametrize("name", CALLS)
def test_an_answer_is_whole_or_an_error_whichever_allocation_fails(service, name):
    call = CALLS[name]
    for _ in range(3):  # everything that is kept between requests exists now
        whole = service.ask(*call)
        assert whole.status == 200
    errors = 0
    for nth in itertools.count(1):
        service.fail(nth)
        try:
            answer = service.ask(*call)
        except (http.client.HTTPException, ConnectionError):
            answer = None  # the server closed the connection: it had no memory for an answer
        if not service.failed():
            break  # the request has no more allocations that could fail
        service.check_alive()
        if answer is not None and answer.status != 200:
            errors += 1
            calls.expect_error(answer, 503, "out_of_memory")
            assert answer.headers["Retry-After"]
        elif answer is not None:
            assert fields(answer) == fields(whole)
            assert name == "page" or content(answer) == content(whole)
    service.fail(0)
    assert errors > 0
    until(service.is_idle)


def chunked(path, body, headers):
    pieces = (body[at : at + MIB] for at in range(0, len(body), MIB))
    framed_body = b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces)
    return path, framed_body + b"0\r\n\r\n", {**headers, "Transfer-Encoding": "chunked"}


def large_raw(query="", size=LARGE):
    path = f"/v1/cumsum?dtype=float32&shape={size // 4}{query}"
    return path, bytes(range(64)) * (size // 64), RAW


def large_npy(descr):
    return calls.npy_bytes(np.zeros(LARGE // 4, descr))


def numbers(before, behind):
    return before + b"0.123456789012345," * (LARGE // 18) + b"0.5]" + behind


COUNT = LARGE // 18 + 1  # number of elements in such a text
DML = {"DataType": "FLOAT32", "Sizes": [1, 1, 1, LARGE // 4]}
DML_SCAN = {"InputTensor": DML, "OutputTensor": DML, "Axis": 3}
DML_SCAN.update(AxisDirection="INCREASING", HasExclusiveSum=False)


def large_framed(path, document):
    head = calls.json_body(document)
    headers = {"Inference-Header-Content-Length": str(len(head))}
    return path, head + bytes(LARGE), headers


def v2_document(**parameters):
    tensor = {"name": "x", "shape": [LARGE // 4], "datatype": "FP32"}
    tensor["parameters"] = {"binary_data_size": LARGE}
    output = {"name": "y", "parameters": {"binary_data": True}}
    return {"inputs": [tensor], "outputs": [output], "parameters": parameters}


def part_behind_a_long_carry(service):
    """A part with a million lines, whose carry is longer than the part."""
    rows = f"dtype=float32&shape=5,{LARGER // 20}&axis=0"
    _, body, _ = large_raw(size=LARGER)
    first = service.ask(f"/v1/cumsum?{rows}&part=first", body, RAW)
    carry = first.body[: int(first.headers["Tally-Carry-Length"])]
    assert len(carry) > MIB
    headers = {**RAW, "Tally-Carry-Length": str(len(carry))}
    return f"/v1/cumsum?{rows}&part=last", carry + body, headers


def segments_of_mixed_lengths():
    """About as many bytes of offsets as of elements."""
    path, body, _ = large_raw()
    lengths = np.resize([1, 2, 3, 2], LARGE // 8)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    front = offsets.astype("<i8").tobytes()
    return path, front + body, {**RAW, "Tally-Offsets-Length": str(len(front))}


JSON_NUMBERS = ("/v1/cumsum", numbers(b'{"data":[', b"}"), JSON)
JSON_STRIDED = (
    "/v1/cumsum",
    numbers(b'{"shape":[%d],"strides":[2],"data":[' % ((COUNT + 1) // 2), b"}"),
    JSON,
)
V2_NUMBERS = numbers(
    b'{"inputs":[{"name":"x","datatype":"FP32","shape":[%d],"data":[' % COUNT, b"}]}"
)
DML_ROW = {"DataType": "FLOAT32", "Sizes": [COUNT]}
DML_ROW_SCAN = {**DML_SCAN, "InputTensor": DML_ROW, "OutputTensor": DML_ROW, "Axis": 0}
DML_NUMBERS = numbers(calls.json_body({"desc": DML_ROW_SCAN})[:-1] + b',"data":[', b"}")
OPENVINO_NUMBERS = numbers(b'{"inputs":[{"precision":"FP32","shape":[%d],"data":[' % COUNT, b"}]}")
STORED = {**RAW, "Content-Encoding": "gzip"}
LEAST = {False: 64 << 10, True: MIB}  # bytes; connection buffers are smaller
LARGE_CALLS = {
    "raw": lambda service: large_raw(),
    "raw, strided": lambda service: (
        f"/v1/cumsum?dtype=float32&shape={LARGE // 8}&strides=2",
        bytes(LARGE - 4),
        RAW,
    ),
    "raw with gaps in the sums": lambda service: large_raw("&output_strides=2"),
    "raw, one byte that asks for much": lambda service: (
        f"/v1/cumsum?dtype=int8&shape={LARGE}&strides=0",
        b"\x01",
        RAW,
    ),
    "raw, in chunks": lambda service: chunked(*large_raw()),
    "raw, packed": lambda service: (large_raw()[0], gzip.compress(bytes(LARGE), 1), STORED),
    "raw, packed and long": lambda service: (
        large_raw()[0],
        gzip.compress(bytes(LARGE), 0),
        STORED,
    ),
    "raw, packed, in chunks": lambda service: chunked(
        large_raw()[0], gzip.compress(bytes(LARGE), 0), STORED
    ),
    "raw for a packed answer": lambda service: (
        large_raw()[0],
        bytes(LARGE),
        {**RAW, "Accept-Encoding": "gzip"},
    ),
    "raw for a text": lambda service: (
        f"/v1/cumsum?dtype=float64&shape={LARGE // 8}",
        bytes(LARGE),
        {**RAW, "Accept": calls.JSON},
    ),
    "npy": lambda service: ("/v1/cumsum", large_npy("<f4"), {"Content-Type": calls.NPY}),
    "npy, big-endian": lambda service: (
        "/v1/cumsum",
        large_npy(">f4"),
        {"Content-Type": calls.NPY},
    ),
    "json": lambda service: JSON_NUMBERS,
    "json, strided": lambda service: JSON_STRIDED,
    "json, in chunks": lambda service: chunked(*JSON_NUMBERS),
    "json, packed": lambda service: (
        "/v1/cumsum",
        gzip.compress(JSON_NUMBERS[1], 1),
        {**JSON, "Content-Encoding": "gzip"},
    ),
    "json, part": lambda service: ("/v1/cumsum", numbers(b'{"part":"first","data":[', b"}"), JSON),
    "v2 binary": lambda service: large_framed("/v2/models/cumsum/infer", v2_document()),
    "v2 binary, in chunks": lambda service: chunked(
        *large_framed("/v2/models/cumsum/infer", v2_document())
    ),
    "v2 binary, part": lambda service: large_framed(
        "/v2/models/cumsum/infer", v2_document(part="first")
    ),
    "v2 json": lambda service: ("/v2/models/cumsum/infer", V2_NUMBERS, JSON),
    "part": lambda service: large_raw("&part=first"),
    "part behind a long carry": part_behind_a_long_carry,
    "segments": lambda service: segments_of_mixed_lengths(),
    "segments, in chunks": lambda service: chunked(*segments_of_mixed_lengths()),
    "totals": lambda service: (large_raw()[0].replace("?", "/totals?"), bytes(LARGE), RAW),
    "totals of short lines": lambda service: (
        f"/v1/cumsum/totals?dtype=float32&shape={LARGE // 256},64&axis=1",
        bytes(LARGE),
        RAW,
    ),
    "directml": lambda service: ("/v1/directml/cumulative_summation", DML_NUMBERS, JSON),
    "directml, binary": lambda service: large_framed(
        "/v1/directml/cumulative_summation", {"desc": DML_SCAN}
    ),
    "openvino": lambda service: ("/v1/openvino/cumsum-3", OPENVINO_NUMBERS, JSON),
    "openvino, binary": lambda service: large_framed(
        "/v1/openvino/cumsum-3",
        {"inputs": [{"precision": "FP32", "shape": [LARGE // 4], "binary_data_size": LARGE}]},
    ),
}


@pytest.mark.parametrize("lasting", [False, True], ids=["one", "all"])
@pytest.mark.parametrize("name", LARGE_CALLS)
def test_a_large_answer_is_whole_or_an_error_whichever_large_allocation_fails(
    service, name, lasting
):
    """With `lasting` all later allocations fail, too, as under a limit of address space."""
    call = LARGE_CALLS[name](service)
    whole = service.ask_large(*call)
    assert whole.status == 200, whole
    errors = 0
    for nth in itertools.count(1):
        service.forget_slabs()
        service.fail(nth, LEAST[lasting], lasting)
        try:
            answer = service.ask_large(*call)
        except ConnectionError:
            answer = None  # the server closed the connection: it had no memory for an answer
        if not service.failed():
            break  # the request has no more allocations that could fail
        service.check_alive()
        if answer is not None and answer.status != 200:
            errors += 1
            calls.expect_error(answer, 503, "out_of_memory")
            assert answer.headers["Retry-After"]
        elif answer is not None:
            assert content(answer) == content(whole)
    service.fail(0)
    assert errors > 0 or not lasting
    until(service.is_idle)
    assert content(service.ask_large(*call)) == content(whole)


@pytest.mark.release_only
def test_a_tensor_that_exceeds_the_address_space_is_refused_and_the_service_continues(start_server):
    server = start_server("--devices", "cpu")
    size = 64 * MIB
    limit = server.address_space_bytes() + size // 2
    resource.prlimit(server.pid, resource.RLIMIT_AS, (limit, limit))
    for _ in range(3):
        path = f"/v1/cumsum?dtype=int8&shape={size}"
        answer = Service.ask_large(server, path, bytes(size), RAW)
        calls.expect_error(answer, 503, "out_of_memory")
        assert calls.works(server)
    until(functools.partial(Service.is_idle, server))
    server.stop()
