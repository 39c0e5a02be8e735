"""One allocation that the system refuses, whichever it is: an answer is whole or an error, and what
the request had goes back."""

import gzip
import http.client
import itertools
import json
import zlib

import numpy as np
import pytest

from support import calls
from support.tallyd import MODE, TOP, Tallyd
from support.waiting import until

LIBRARY = TOP / "build/release/tests/libfail_memory.so"
LONG = np.random.default_rng(1).standard_normal(50_000).astype(np.float32)
LONG_RAW = f"/v1/cumsum?dtype=float32&shape={LONG.size}"
FEW_FILES = 8  # of libmicrohttpd's, for another daemon; hundreds of allocations fail
PACKED = {"Content-Encoding": "gzip", "Accept-Encoding": "gzip"}
UNPACK = {None: bytes, "gzip": gzip.decompress, "deflate": zlib.decompress}


def framed(document, array):
    """Body and header."""
    head = calls.json_body(document)
    return head + array.tobytes(), {"Inference-Header-Content-Length": str(len(head))}


def v2_binary():
    tensor = {"name": "x", "shape": [LONG.size], "datatype": "FP32"}
    tensor["parameters"] = {"binary_data_size": LONG.nbytes}
    output = {"name": "y", "parameters": {"binary_data": True}}
    return framed({"inputs": [tensor], "outputs": [output]}, LONG)


JSON = {"Content-Type": calls.JSON}
RAW = {"Content-Type": calls.RAW}
CALLS = {
    "json": ("/v1/cumsum", b'{"data":[[1,2],[3,4]],"axis":1}', JSON),
    "long json": ("/v1/cumsum", json.dumps({"data": LONG.tolist()}).encode(), JSON),
    "raw": (LONG_RAW, LONG.tobytes(), RAW),
    "packed": (LONG_RAW, gzip.compress(LONG.tobytes(), 1), {**RAW, **PACKED}),
    "part": (LONG_RAW + "&part=first", LONG.tobytes(), RAW),
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
        super().__init__(log, env=env)

    def fail(self, nth):
        """The nth allocation from now on; 0: none."""
        with open(self.left, "r+b" if self.left.exists() else "wb") as file:
            file.write(nth.to_bytes(8, "little"))

    def failed(self):
        return self.left.read_bytes() == bytes(8)

    def ask(self, path, body, headers):
        client = self.client()
        try:
            return client.request("GET" if body is None else "POST", path, body, headers)
        finally:
            client.close()

    def is_idle(self):
        blocks = ("tally_memory_reserved_bytes", "tally_memory_blocks")
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
    """But for those of the packing, which may be left out; each answer has its own value of some."""
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
    for _ in range(3):  # what is kept from one request to the next is there
        whole = service.ask(*call)
        assert whole.status == 200
    errors = 0
    for nth in itertools.count(1):
        service.fail(nth)
        try:
            answer = service.ask(*call)
        except (http.client.HTTPException, ConnectionError):
            answer = None  # closed: there was nothing yet to say it with
        if not service.failed():
            break  # there are no more
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
