"""The requests of the service's sections: their bodies and targets."""

import functools
import json
import random
import struct

JSON = "application/json"
RAW = "application/octet-stream"
MIB = 1 << 20
MATRIX = [[2, 1, 3, 5], [3, 8, 7, 3], [9, 6, 2, 4]]


def floats(count, seed=1):
    rng = random.Random(seed)
    return [struct.unpack("f", struct.pack("f", rng.uniform(-1000, 1000)))[0] for _ in range(count)]


def raw_body(count):
    block = struct.pack("4096f", *floats(4096))
    return (block * (count // 4096 + 1))[: count * 4]


def json_body(count):
    """Random float64, as Python prints them: most have 17 digits."""
    rng = random.Random(1)
    numbers = [rng.uniform(-1000, 1000) for _ in range(count)]
    return json.dumps({"data": numbers, "dtype": "float64"}).encode()


def small_json():
    return json.dumps({"data": MATRIX, "dtype": "float32", "axis": 1}).encode()


def v2_json():
    numbers = [x for row in MATRIX for x in row]
    tensor = {"name": "x", "shape": [3, 4], "datatype": "FP32", "data": numbers}
    return json.dumps({"inputs": [tensor]}).encode()


def v2_binary(shape, data):
    """A body, and the header with the length of its JSON."""
    tensor = {
        "name": "x",
        "shape": shape,
        "datatype": "FP32",
        "parameters": {"binary_data_size": len(data)},
    }
    parameters = {"axis": -1, "binary_data_output": True}
    head = json.dumps({"parameters": parameters, "inputs": [tensor]}).encode()
    return head + data, f"Inference-Header-Content-Length: {len(head)}"


def raw_query(shape, axis=0):
    return f"?dtype=float32&shape={shape}&axis={axis}"


class Work:
    """One kind of request. make_body is called when the body is first needed, as long bodies
    take seconds to make. echo: the answer is long and has the length of the body, so that the
    bare daemon may return the body."""

    def __init__(self, name, path, content_type, make_body, connections, **more):
        self.name = f"{name} c={connections}"
        self.path, self.content_type, self.make_body = path, content_type, make_body
        self.connections, self.extra = connections, more.get("extra", "")
        self.echo = more.get("echo", False)
        self.goal = more.get("goal")

    @functools.cached_property
    def body(self):
        return self.make_body()

    def wrk_args(self, seconds):
        return {
            "content_type": self.content_type,
            "seconds": seconds,
            "connections": self.connections,
            "extra": self.extra,
        }


def raw_work(name, path, count, connections, **more):
    return Work(name, path, RAW, lambda: raw_body(count), connections, **more)


def json_work(count, path, connections, **more):
    """A request with `count` numbers in JSON."""
    name = f"JSON of {count} numbers"
    return Work(name, path, JSON, lambda: json_body(count), connections, **more)
