"""Sums in parts: however a tensor is cut along its axis, in every format and on every server, the
outputs equal those of one request; carries that do not fit are refused."""

import base64
import json
import pathlib
import random
import socket
import sys
import zlib

import numpy as np
import pytest

from support import calls, carries, dtypes
from support.calls import JSON, NPY, RAW
from support.http import Client, post_bytes
from support.parts import LENGTH, cut_at, in_parts, post, raw_part, split
from support.tallyd import BINARY
from support.waiting import until

TOP = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TOP / "tests" / "fleet"))

import replicas  # noqa: E402

# positions around the sizes of kernel blocks and slices
EDGES = [0, 1, 255, 256, 257, 1023, 1024, 1025, 65536]


def random_stored(dtype, shape, rng):
    if dtype.is_float:
        return dtype.store(rng.standard_normal(shape) * 10.0 ** rng.integers(-3, 3, shape))
    return np.frombuffer(rng.bytes(int(np.prod(shape)) * dtype.bytes), dtype.storage).reshape(shape)


def npy_part(client, dtype, stored, carry, **attributes):
    headers = {LENGTH: str(len(carry))} if carry else {}
    body = carry + calls.npy_bytes(stored)
    carry, out = split(client.post("/v1/cumsum" + calls.query(**attributes), body, NPY, headers))
    return carry, calls.npy_array(out).tobytes()


def json_part(client, dtype, stored, carry, **attributes):
    document = {
        "data": dtype.json_values(stored.reshape(-1)),
        "shape": list(stored.shape),
        "dtype": dtype.name,
        **attributes,
    }
    if carry:
        document["carry"] = base64.b64encode(carry).decode()
    answer = client.post_json("/v1/cumsum", document)
    assert answer.status == 200, answer
    document = answer.json()
    carry = base64.b64decode(document.get("carry", ""), validate=True)
    return carry, dtype.from_json(document["data"]).tobytes()


def v2_part(binary_in, binary_out):
    def part(client, dtype, stored, carry, **attributes):
        inputs, behind = [], b""
        tensors = [("x", stored, dtype.kserve)]
        if carry:
            tensors.append(("carry", np.frombuffer(carry, np.uint8), "UINT8"))
        random.shuffle(tensors)
        for name, array, datatype in tensors:
            tensor = {"name": name, "shape": list(array.shape), "datatype": datatype}
            if binary_in:
                tensor["parameters"] = {"binary_data_size": array.nbytes}
                behind += array.tobytes()
            elif name == "carry":
                tensor["data"] = array.tolist()
            else:
                tensor["data"] = dtype.json_values(array.reshape(-1))
            inputs.append(tensor)
        attributes["binary_data_output"] = binary_out
        head = json.dumps({"parameters": attributes, "inputs": inputs}).encode()
        headers = {"Inference-Header-Content-Length": str(len(head))} if binary_in else {}
        answer = client.post("/v2/models/cumsum/infer", head + behind, None, headers)
        assert answer.status == 200, answer
        at = int(answer.headers.get("Inference-Header-Content-Length", len(answer.body)))
        out = {"carry": b""}
        for tensor in json.loads(answer.body[:at])["outputs"]:
            if binary_out:
                size = tensor["parameters"]["binary_data_size"]
                out[tensor["name"]] = answer.body[at : at + size]
                at += size
            elif tensor["name"] == "carry":
                out["carry"] = bytes(tensor["data"])
            else:
                out["y"] = dtype.from_json(tensor["data"]).tobytes()
        assert at == len(answer.body)
        return out["carry"], out["y"]

    return part


def layouts(size):
    """Shapes with an axis of that size: alone, innermost, outermost, in the middle."""
    return [((size,), 0), ((3, size), 1), ((size, 5), 0), ((2, size, 3), 1), ((1, size, 1, 2), 1)]


@pytest.mark.parametrize("dtype", dtypes.ALL, ids=str)
def test_any_cut_on_any_server_gives_the_bits_of_one_request(pair, dtype):
    rng, draw = np.random.default_rng(len(dtype.name)), random.Random(dtype.name)
    for exclusive, reverse in ((False, False), (False, True), (True, False), (True, True)):
        sizes = [700, 3000, 70000 if exclusive != reverse else 140000]
        for size in sizes:
            shape, axis = draw.choice(layouts(size))
            stored = random_stored(dtype, shape, rng)
            attributes = {"exclusive": exclusive, "reverse": reverse}
            whole = split(post(pair[0], dtype, stored, axis=axis, **attributes))[1]
            near = [edge for edge in EDGES if edge <= size]
            cuts = [
                draw.choice([draw.choice(near), draw.randint(0, size), size - draw.choice(near)])
                for _ in range(draw.randint(1, 6))
            ]
            out = in_parts(pair, raw_part, dtype, stored, cuts, axis, **attributes)
            assert out.tobytes() == whole, (shape, axis, cuts, attributes)


def test_parts_of_one_element_and_of_none_add_up(pair):
    dtype, rng = dtypes.BY_NAME["float32"], np.random.default_rng(3)
    stored = random_stored(dtype, (2, 520), rng)
    cuts = [*range(0, 520), 300, 300]
    out = in_parts(pair, raw_part, dtype, stored, cuts, 1, exclusive=True)
    calls.expect_same(dtype, out, stored, axis=1, exclusive=True)
    assert out.tobytes() == split(post(pair[1], dtype, stored, axis=1, exclusive=True))[1]


FORMATS = {
    "raw": raw_part,
    "npy": npy_part,
    "json": json_part,
    "v2 binary": v2_part(True, True),
    "v2 json": v2_part(False, False),
    "v2 json in": v2_part(False, True),
    "v2 json out": v2_part(True, False),
}


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_carries_the_same(pair, name):
    rng = np.random.default_rng(8)
    for dtype in (dtypes.BY_NAME["float32"], dtypes.BY_NAME["int16"]):
        stored = random_stored(dtype, (3, 900), rng)
        whole = split(post(pair[0], dtype, stored, axis=1))[1]
        out = in_parts(pair, FORMATS[name], dtype, stored, [0, 100, 100, 612, 899], 1)
        assert out.tobytes() == whole


def test_the_format_may_change_from_part_to_part(pair):
    dtype, rng = dtypes.BY_NAME["float64"], np.random.default_rng(9)
    stored = random_stored(dtype, (900, 4), rng)
    formats = list(FORMATS.values())

    def part(client, *args, **attributes):
        formats.append(formats.pop(0))
        return formats[0](client, *args, **attributes)

    out = in_parts(pair, part, dtype, stored, [50, 256, 300, 511, 512, 700], 0, reverse=True)
    assert out.tobytes() == split(post(pair[0], dtype, stored, reverse=True))[1]


def test_a_carry_may_be_long_in_json(client):
    """The carry is longer than the limit for all text in JSON other than numbers."""
    dtype, rng = dtypes.BY_NAME["float64"], np.random.default_rng(10)
    stored = random_stored(dtype, (4, 20000), rng)
    out = in_parts([client], json_part, dtype, stored, [1, 3], 0)
    assert out.tobytes() == split(post(client, dtype, stored))[1]


@pytest.mark.parametrize("escapes", [{"/": "\\/"}, {"+": "\\u002B"}, {"=": "\\u003d"}])
def test_a_carry_may_be_escaped_as_encoders_of_json_do(client, escapes):
    """PHP, .NET and Gson write these escapes by default."""
    part = {"dtype": "uint8", "axis": 1}
    first = {"data": [[255], [255], [251]], "part": "first", **part}
    carry = client.post_json("/v1/cumsum", first).json()["carry"]
    assert set("+/=") <= set(carry), carry
    text = json.dumps({"data": [[1], [2], [3]], "part": "last", "carry": carry, **part})
    for plain, escaped in escapes.items():
        text = text.replace(plain, escaped)
    last = client.post("/v1/cumsum", text.encode(), JSON)
    assert last.status == 200 and last.json()["data"] == [[0], [1], [254]], last


def test_strides_of_the_input_and_other_answers_are_possible(client):
    dtype = dtypes.BY_NAME["float32"]
    rows = np.arange(12, dtype=np.float32).reshape(3, 4)
    query = calls.query(dtype="float32", shape=[4, 3], strides=[1, 4], part="first")
    answer = client.post("/v1/cumsum" + query, rows.tobytes(), RAW, {"Accept": JSON})
    assert answer.json()["data"] == np.cumsum(rows.T, 0).reshape(-1).tolist()
    carry = base64.b64decode(answer.json()["carry"])
    last = split(post(client, dtype, np.ones((1, 3), np.float32), carry, part="last"))[1]
    assert np.frombuffer(last, np.float32).tolist() == (rows.sum(1) + 1).tolist()


def test_packed_and_chunked_bodies_carry_too(server, client):
    dtype, rng = dtypes.BY_NAME["float32"], np.random.default_rng(11)
    stored = random_stored(dtype, (600, 40), rng)
    carry, first = split(post(client, dtype, stored[:300], part="first"))
    path = "/v1/cumsum" + calls.query(dtype="float32", shape=[300, 40], part="last")
    body = carry + stored[300:].tobytes()
    plain = client.post(path, body, RAW, {LENGTH: str(len(carry))})
    headers = {LENGTH: str(len(carry)), "Content-Encoding": "gzip", "Accept-Encoding": "gzip"}
    packer = zlib.compressobj(wbits=31)
    packed = client.post(path, packer.compress(body) + packer.flush(), RAW, headers)
    assert zlib.decompress(packed.body, wbits=31) == plain.body
    pieces = (body[at : at + 1000] for at in range(0, len(body), 1000))
    assert client.post(path, pieces, RAW, {LENGTH: str(len(carry))}).body == plain.body
    whole = split(post(client, dtype, stored))[1]
    assert first + plain.body == whole


def test_no_lines_and_no_elements_are_carried_as_well(client):
    dtype = dtypes.BY_NAME["float32"]
    carry, out = split(post(client, dtype, np.empty((5, 0), np.float32), part="first"))
    assert carry == carries.of_sums(dtype, [], 5) and out == b""
    carry, out = split(post(client, dtype, np.empty((0, 2), np.float32), part="first"))
    assert carry == carries.of_sums(dtype, ["-0", "-0"], 0) and out == b""
    last = split(post(client, dtype, np.ones((1, 2), np.float32), carry, part="last"))
    assert last == (b"", np.ones(2, np.float32).tobytes())
    minus = split(post(client, dtype, np.full((1, 2), -0.0, np.float32), carry, part="last"))[1]
    assert minus == np.full(2, -0.0, np.float32).tobytes()


# ---- carries and totals ----

KINDS = ["float16", "bfloat16", "float32", "float64", "int8", "int16", "uint64"]


@pytest.mark.parametrize("name", KINDS)
def test_a_carry_is_the_exact_sum_of_each_line_however_it_came_about(pair, name):
    dtype, rng = dtypes.BY_NAME[name], np.random.default_rng(15)
    for exclusive, reverse in ((False, False), (True, True)):
        attributes = {"axis": 1, "exclusive": exclusive, "reverse": reverse}
        stored = random_stored(dtype, (3, 500, 2), rng)
        expected = carries.of_tensor(dtype, stored, **attributes)
        assert split(post(pair[0], dtype, stored, part="first", **attributes))[0] == expected
        carry, name_of_part = b"", "first"
        for begin, end in cut_at(500, [0, 77, 300]):
            where = slice(500 - end, 500 - begin) if reverse else slice(begin, end)
            part = np.ascontiguousarray(stored[:, where])
            carry, _ = split(post(pair[1], dtype, part, carry, part=name_of_part, **attributes))
            name_of_part = "next"
        assert carry == expected


def test_the_carry_of_special_values_says_which(client):
    dtype = dtypes.BY_NAME["float32"]
    inf, nan = np.inf, np.nan
    rows = np.float32(
        [[1, nan], [inf, -inf], [inf, 5], [-inf, -1], [-0.0, -0.0], [0.0, -0.0], [1e-45, -1e-45]]
    )
    carry, _ = split(post(client, dtype, rows, axis=1, part="first"))
    assert carries.sums_of(carry) == ["nan", "nan", "+inf", "-inf", "-0", 0, 0]
    assert carry == carries.of_tensor(dtype, rows, 1)
    more = np.ones((7, 1), np.float32)
    last = np.frombuffer(
        split(post(client, dtype, more, carry, axis=1, part="last"))[1], np.float32
    )
    np.testing.assert_array_equal(last, np.float32([nan, nan, inf, -inf, 1, 1, 1]))


@pytest.mark.parametrize("name", ["float32", "float16", "float64", "int16", "uint64"])
def test_parts_side_by_side_with_totals_give_the_same_bits(pair, name):
    """Total all parts on any server, add the totals as integers, and prepend their sum to each
    part."""
    dtype, rng = dtypes.BY_NAME[name], np.random.default_rng(12)
    for exclusive, reverse in ((False, False), (True, True)):
        stored = random_stored(dtype, (2, 3777), rng)
        attributes = {"axis": 1, "exclusive": exclusive, "reverse": reverse}
        whole = split(post(pair[0], dtype, stored, **attributes))[1]
        out = np.empty_like(stored)
        sums = [0, 0]
        for k, (begin, end) in enumerate(cut_at(3777, [1, 1000, 1001, 3000])):
            where = slice(3777 - end, 3777 - begin) if reverse else slice(begin, end)
            part = np.ascontiguousarray(stored[:, where])
            carry = carries.of_sums(
                dtype, sums if begin or exclusive or not dtype.is_float else ["-0", "-0"],
                begin, exclusive, reverse,
            )  # fmt: skip
            bytes_out = split(post(pair[k % 2], dtype, part, carry, part="last", **attributes))[1]
            out[:, where] = np.frombuffer(bytes_out, dtype.storage).reshape(2, -1)
            answer = post(pair[1 - k % 2], dtype, part, path="/v1/cumsum/totals", **attributes)
            total, rest = split(answer)
            assert rest == b"" and total == carries.of_tensor(dtype, part, **attributes)
            sums = [a + b for a, b in zip(sums, carries.sums_of(total), strict=True)]
        assert out.tobytes() == whole


@pytest.mark.parametrize("name", KINDS)
def test_totals_add_up_on_the_server_and_are_the_carry_of_the_whole(pair, name):
    dtype, rng = dtypes.BY_NAME[name], np.random.default_rng(13)
    for shape, axis in (((900, 2), 0), ((2, 900, 3), 1), ((4, 900), 1)):
        stored = random_stored(dtype, shape, rng)
        whole = carries.of_tensor(dtype, stored, axis)
        assert split(post(pair[0], dtype, stored, axis=axis, part="first"))[0] == whole
        carry = b""
        for k, (begin, end) in enumerate(cut_at(900, [0, 300, 301])):
            part = np.ascontiguousarray(
                np.moveaxis(np.moveaxis(stored, axis, 0)[begin:end], 0, axis)
            )
            answer = post(pair[k % 2], dtype, part, carry, path="/v1/cumsum/totals", axis=axis)
            carry, rest = split(answer)
            assert rest == b""
        assert carry == whole


def test_totals_come_in_every_format(client):
    rows = np.float32([[2, 1, 3, 5], [3, 8, 7, 3]])
    path = "/v1/cumsum/totals"
    for dtype in (dtypes.BY_NAME["float32"], dtypes.BY_NAME["bfloat16"]):
        stored = dtype.store(rows.astype(np.float64))
        expected = carries.of_tensor(dtype, stored, 1)
        text = base64.b64encode(expected).decode()
        document = {"data": rows.tolist(), "axis": 1, "dtype": dtype.name}
        answer = client.post_json(path, document).json()
        assert answer == {"dtype": dtype.name, "shape": [2, 4], "carry": text}
        twice = client.post_json(path, {**document, "carry": text}).json()["carry"]
        doubled = [2 * number for number in carries.sums_of(expected)]
        assert base64.b64decode(twice) == carries.of_sums(dtype, doubled, 8)
        for accept in (RAW, NPY):
            query = calls.query(axis=1, dtype=dtype.name, shape=[2, 4])
            answer = client.post(path + query, stored.tobytes(), RAW, {"Accept": accept})
            assert split(answer) == (expected, b"")
            assert answer.headers["Content-Type"] == RAW
    answer = client.post(path + "?axis=1", calls.npy_bytes(rows), NPY)
    assert split(answer) == (carries.of_tensor(dtypes.BY_NAME["float32"], rows, 1), b"")
    empty = post(client, dtypes.BY_NAME["float32"], np.empty((3, 0), np.float32), path=path, axis=1)
    assert split(empty) == (carries.of_sums(dtypes.BY_NAME["float32"], ["-0"] * 3, 0), b"")


def test_totals_of_a_tensor_with_strides_are_those_of_its_elements(client):
    dtype = dtypes.BY_NAME["float32"]
    query = calls.query(dtype="float32", shape=[4, 3], strides=[1, 4])
    rows = np.arange(12, dtype=np.float32)
    total, _ = split(client.post("/v1/cumsum/totals" + query, rows.tobytes(), RAW))
    assert total == carries.of_tensor(dtype, rows.reshape(3, 4).T)
    query = calls.query(dtype="float32", shape=[1000000, 1], strides=[0, 0])
    total, _ = split(client.post("/v1/cumsum/totals" + query, np.float32([0.1]).tobytes(), RAW))
    assert carries.sums_of(total) == [1000000 * carries.line_sum(dtype, np.float32([0.1]))]


# ---- any replica, and one that is killed ----


@pytest.fixture
def fleet(tmp_path):
    """Three replicas behind HAProxy with deploy/haproxy.cfg, but with more frequent checks."""
    often = {r"inter 1s fall 2": "inter 100ms fall 2"}
    with replicas.Fleet(tmp_path, False, BINARY, flags=["--cpus", "1"], adapt=often) as fleet:
        yield fleet


def replica_at_work(fleet):
    lines = fleet.ask("show stat -1 4 -1").removeprefix("# ").splitlines()
    names = lines[0].split(",")
    rows = [dict(zip(names, line.split(","))) for line in lines[1:] if line]
    busy = {row["svname"] for row in rows if row["scur"] != "0"}
    return next((replica for replica in fleet.replicas if replica.name in busy), None)


def kill_inside(fleet, request):
    """Kill the replica that has half of the request; returns the answer that the client gets."""
    with socket.create_connection(("127.0.0.1", fleet.port), 60) as wire:
        wire.sendall(request[: len(request) // 2])
        until(lambda: replica_at_work(fleet) is not None, 60)
        replica_at_work(fleet).kill()
        return wire.recv(100)


def test_behind_haproxy_a_replica_that_is_killed_costs_at_most_the_part_it_has(fleet):
    """The first replica is killed between two parts, the second within one, and the third sums the
    rest."""
    dtype, rng = dtypes.BY_NAME["float32"], np.random.default_rng(8)
    stored = random_stored(dtype, (4000, 100), rng)
    cuts, carry, sums = [0, 1000, 1001, 2500, 4000], b"", b""
    for number, (begin, end) in enumerate(zip(cuts, cuts[1:])):
        part = stored[begin:end]
        attributes = {"part": "next" if carry else "first"}
        if number == 1:
            fleet.replicas[0].kill()
        if number == 2:
            query = calls.query(dtype="float32", shape=list(part.shape), **attributes)
            headers = [("Content-Type", RAW), (LENGTH, str(len(carry)))]
            request = post_bytes("/v1/cumsum" + query, carry + part.tobytes(), headers)
            told = kill_inside(fleet, request)
            assert told == b"" or told.startswith(b"HTTP/1.1 503 "), told
        for _ in range(3):
            client = Client(fleet.port)
            answer = post(client, dtype, part, carry, **attributes)
            client.close()
            if answer.status != 503:
                break
        carry, out = split(answer)
        sums += out
    client = Client(fleet.port)
    assert sums == split(post(client, dtype, stored))[1]
    client.close()


# ---- refusals ----


FLOAT32 = dtypes.BY_NAME["float32"]
ONE = 1 << 149  # the number 1 in units of 2^-149, the least positive float32


def good_carry():
    return carries.of_sums(FLOAT32, [ONE, "-0"], 3)


def sealed(flags=0, lines=2, position=3, payload=bytes(8), dtype="float32", version=2):
    return carries.seal(dtypes.BY_NAME[dtype], flags, lines, position, payload, version)


def line_of(flags, low, *words):
    """A payload of two lines: the given one, and one whose sum is 0."""
    kept = b"".join((word % 2**64).to_bytes(8, "little") for word in words)
    return bytes([flags, 0, low, len(words)]) + bytes(4) + kept


def flip(carry, at):
    return carry[:at] + bytes([carry[at] ^ 1]) + carry[at + 1 :]


REFUSED = {
    "magic": (flip(good_carry(), 3), "TALLYSUM"),
    "version": (flip(good_carry(), 9), "version 258"),
    "the first version": (sealed(version=1), "version 1"),
    "sum": (flip(good_carry(), 70), "CRC-32"),
    "stored sum": (flip(good_carry(), 12), "CRC-32"),
    "last byte": (flip(good_carry(), len(good_carry()) - 1), "CRC-32"),
    "reserved": (flip(good_carry(), 50), "do not exist"),
    "cut off": (good_carry()[:-1], "CRC-32"),
    "too long": (good_carry() + b"\0", "CRC-32"),
    "a word too few": (sealed(payload=line_of(0, 2, 5)[:8]), "behind the end"),
    "a word too many": (sealed(payload=line_of(0, 2, 5) + bytes(8)), "its lines take 80"),
    "header alone": (good_carry()[:64], "64 bytes"),
    "nothing": (b"TALLY", "at least 64"),
    "type": (sealed(dtype="float64"), "float64"),
    "no type": (flip(good_carry(), 16)[:16] + b"\x0d" + good_carry()[17:], "do not exist"),
    "unused byte": (flip(good_carry(), 17), "do not exist"),
    "direction": (sealed(flags=2), "reverse true"),
    "exclusive": (sealed(flags=1), "exclusive true"),
    "flags": (sealed(flags=12), "do not exist"),
    "nan": (sealed(flags=8), "nan=skip, the part has nan=propagate"),
    "lines": (sealed(lines=3, payload=bytes(16)), "3 lines"),
    "many lines": (sealed(lines=2**63), "lines"),
    "lines that wrap": (sealed(lines=2**60 + 2), "lines"),
    "position": (sealed(position=2**63 - 256), "2^63"),
    "far position": (sealed(position=2**64 - 256), "2^63"),
    "flags of a line": (sealed(payload=line_of(3, 0)), "line 0 of the carry has flags"),
    "words of a NaN": (sealed(payload=line_of(1, 2, 5)), "no room"),
    "a word of zeros": (sealed(payload=line_of(0, 1, 0, 5)), "add nothing"),
    "a word of signs": (sealed(payload=line_of(0, 1, -5, -1)), "add nothing"),
    "words beyond the type": (sealed(payload=line_of(0, 5, 1, 1)), "so few elements"),
    "a sum beyond its elements": (sealed(payload=line_of(0, 4, 1 << 30)), "so few elements"),
    "a sum of no elements": (sealed(position=0, payload=line_of(0, 2, 5)), "so few elements"),
    "a zero of no elements": (sealed(position=0), "so few elements"),
    "filled up": (
        carries.seal(FLOAT32, 0, 2, 3, b""),
        "64 bytes",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_carry_that_does_not_fit_is_refused_in_every_format(client, name):
    carry, says = REFUSED[name]
    stored = np.ones((300, 2), np.float32)
    answer = post(client, dtypes.BY_NAME["float32"], stored, carry, part="next")
    calls.expect_error(answer, 400, field="carry", says=[says])
    document = {"data": stored.tolist(), "dtype": "float32", "part": "next"}
    document["carry"] = base64.b64encode(carry).decode()
    calls.expect_error(client.post_json("/v1/cumsum", document), 400, field="carry")
    inputs = [
        {"name": "x", "shape": [300, 2], "datatype": "FP32", "data": [1] * 600},
        {"name": "carry", "shape": [len(carry)], "datatype": "UINT8", "data": list(carry)},
    ]
    document = {"inputs": inputs, "parameters": {"part": "next"}}
    answer = client.post_json("/v2/models/cumsum/infer", document)
    calls.expect_error(answer, 400, field="carry")


def test_a_carry_is_refused_before_the_part_behind_it_is_sent(server):
    """The refusal arrives although the part is never sent."""
    for carry, _ in (REFUSED["magic"], REFUSED["lines"], REFUSED["sum"]):
        length = len(carry) + (64 << 20)
        with server.wire() as wire:
            path = "/v1/cumsum?dtype=float32&shape=8388608,2&part=next"
            head = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: {RAW}\r\n"
            head += f"{LENGTH}: {len(carry)}\r\nContent-Length: {length}\r\n\r\n"
            wire.send(head.encode() + carry)
            calls.expect_error(wire.answer(), 400, field="carry")


def test_a_forged_carry_spoils_the_senders_sums_alone(server, client):
    """A forged carry may have a position at any limit and sums of any kind: it changes only the
    sums of its sender."""
    stored = np.ones((3, 2), np.float32)
    for position in (1, 256, 65536, 2**40, 2**63 - 512):
        for number in ("nan", "+inf", "-inf", "-0", 0, 1, -1, ONE, -(2**276)):
            carry = carries.of_sums(FLOAT32, [number, number], position)
            answer = post(client, FLOAT32, stored, carry, part="next")
            assert answer.status == 200 and len(split(answer)[1]) == stored.nbytes
    carry = carries.of_sums(FLOAT32, [2 * ONE] * 2, 2**62 + 255)
    assert (
        split(post(client, FLOAT32, stored, carry, part="last"))[1]
        == np.float32([[3, 3], [4, 4], [5, 5]]).tobytes()
    )
    sums = np.frombuffer(split(post(client, FLOAT32, stored))[1], np.float32).reshape(3, 2)
    calls.expect_same(FLOAT32, sums, stored)


def test_a_part_sent_again_is_answered_again(client):
    dtype, rng = dtypes.BY_NAME["float32"], np.random.default_rng(14)
    stored = random_stored(dtype, (500, 3), rng)
    carry, _ = split(post(client, dtype, stored[:300], part="first"))
    again = [split(post(client, dtype, stored[300:], carry, part="next")) for _ in range(3)]
    assert again[0] == again[1] == again[2]


def test_attributes_that_exclude_each_other_are_refused_by_name(client):
    dtype, one = dtypes.BY_NAME["float32"], np.ones((3, 2), np.float32)
    carry = good_carry()
    for sent, attributes, field in (
        (b"", {"part": "next"}, "carry"),
        (b"", {"part": "last"}, "carry"),
        (carry, {"part": "first"}, "carry"),
        (carry, {}, "carry"),
        (b"", {"part": "middle"}, "part"),
        (b"", {"part": "first", "output_strides": [2, 1]}, "output_strides"),
    ):
        answer = post(client, dtype, one, sent, **attributes)
        calls.expect_error(answer, 400, field=field)
    for attributes, field in (
        ({"part": "first"}, "part"),
        ({"output_strides": [2, 1]}, "output_strides"),
    ):
        answer = post(client, dtype, one, path="/v1/cumsum/totals", **attributes)
        calls.expect_error(answer, 400, field=field)
    answer = client.post("/v1/cumsum?part=first", b"{}", JSON)
    calls.expect_error(answer, 400, field="part")
    document = {"data": [1], "carry": "AA=A", "part": "next"}
    calls.expect_error(
        client.post_json("/v1/cumsum", document), 400, field="carry", says=["base64"]
    )
    document["carry"] = 7
    calls.expect_error(client.post_json("/v1/cumsum", document), 400, field="carry")
    answer = client.post_json("/v1/cumsum", {"data": [1]}, {LENGTH: "64"})
    calls.expect_error(answer, 400, field=LENGTH)
    answer = client.post("/v1/cumsum?dtype=int8&shape=1&part=next", b"x", RAW, {LENGTH: "-1"})
    calls.expect_error(answer, 400, field=LENGTH)
    answer = client.post("/v1/cumsum?dtype=int8&shape=1&part=next", b"x", RAW, {LENGTH: "64"})
    calls.expect_error(answer, 400, field="carry", says=["1 bytes"])


def test_the_dialects_without_parts_say_so(client):
    for path in ("/v1/directml/cumulative_summation", "/v1/openvino/cumsum-3"):
        for member in ("part", "carry"):
            answer = client.post_json(path, {member: "first"})
            calls.expect_error(answer, 400, "unknown_field", member, says=["no parts"])
        answer = client.post_json(path, {}, {LENGTH: "64"})
        calls.expect_error(answer, 400, field=LENGTH)
        answer = client.post_json(path + "?part=first", {})
        calls.expect_error(answer, 400, field="part")


def test_v2_refuses_tensors_that_no_part_has(client):
    x = {"name": "x", "shape": [1], "datatype": "FP32", "data": [1]}
    carry = {"name": "carry", "shape": [64], "datatype": "UINT8", "data": [0] * 64}
    axis = {"name": "axis", "shape": [1], "datatype": "INT64"}
    first = {"part": "first"}
    for document, says in (
        ({"inputs": [x, {**carry, "datatype": "INT8"}]}, "UINT8"),
        ({"inputs": [x, {**carry, "shape": [8, 8]}]}, "one dimension"),
        ({"inputs": [x, carry, carry]}, "twice"),
        ({"inputs": [x, carry]}, "part is not given"),
        ({"inputs": [x], "parameters": first, "outputs": [{"name": "z"}]}, "unexpected output"),
        ({"inputs": [x], "outputs": [{"name": "carry"}]}, "first or next"),
        ({"inputs": [x], "parameters": {"part": "second"}}, "first, next or last"),
        ({"inputs": [{**x, "parameters": {"part": "next"}}], "parameters": first}, "contradicts"),
    ):
        calls.expect_error(client.post_json("/v2/models/cumsum/infer", document), 400, says=[says])
    axis["parameters"] = {"binary_data_size": 8}
    head = json.dumps({"inputs": [x, axis], "parameters": first}).encode()
    headers = {"Inference-Header-Content-Length": str(len(head))}
    answer = client.post("/v2/models/cumsum/infer", head + bytes(8), None, headers)
    calls.expect_error(answer, 400, field="inputs[1]", says=["axis"])


def test_v2_lists_the_possible_causes_of_a_wrong_length_of_a_carry(client):
    """The service compares the carry's length with the shape of the input before it reads the
    carry, and cannot know yet which of the two is wrong."""
    x = {"name": "x", "shape": [2, 3], "datatype": "FP32", "data": [1] * 6}
    # the length of one line, and lengths that two lines cannot have
    for length in (71, 185, 1000):
        carry = {"name": "carry", "shape": [length], "datatype": "UINT8", "data": [0] * length}
        document = {"inputs": [x, carry], "parameters": {"axis": 1, "part": "next"}}
        answer = client.post_json("/v2/models/cumsum/infer", document)
        words = [f"{length} bytes", "2 lines of float32", "type", "number of lines"]
        calls.expect_error(answer, 400, "invalid_data", "carry", says=words)


def test_v2_blames_an_input_where_it_stands(client):
    x = {"name": "x", "shape": [2], "datatype": "INT32", "data": [1, 2]}
    carry = {"name": "carry", "shape": [68], "datatype": "UINT8", "data": [0] * 68}
    axis = {"name": "axis", "shape": [], "datatype": "INT64", "data": [0]}
    scalar = {**x, "shape": [], "data": [1]}
    far = {**axis, "data": [2]}
    for inputs, code, field in (
        ([carry, scalar], "invalid_shape", "inputs[1].shape"),
        ([carry, axis, scalar], "invalid_shape", "inputs[2].shape"),
        ([axis, carry, scalar], "invalid_shape", "inputs[2].shape"),
        ([x, carry, far], "invalid_axis", "inputs[2].data"),
        ([carry, far, x], "invalid_axis", "inputs[1].data"),
        ([carry, {**x, "parameters": {"axis": 2}}], "invalid_axis", "inputs[1].parameters.axis"),
        ([x, {**carry, "datatype": "INT8"}], "invalid_dtype", "inputs[1].datatype"),
        ([x, {**carry, "shape": [4, 17]}], "invalid_shape", "inputs[1].shape"),
        ([x, {**carry, "data": [0, 256] + [0] * 66}], "invalid_data", "inputs[1].data[1]"),
    ):
        document = {"inputs": inputs, "parameters": {"part": "next"}}
        answer = client.post_json("/v2/models/cumsum/infer", document)
        calls.expect_error(answer, 400, code, field)


def test_v2_answers_the_carry_in_the_form_it_is_asked_for(client):
    inputs = [{"name": "x", "shape": [3], "datatype": "INT32", "data": [1, 2, 3]}]
    document = {"inputs": inputs, "parameters": {"part": "first"}, "outputs": [{"name": "y"}]}
    plain = client.post_json("/v2/models/cumsum/infer", document).json()
    assert [tensor["name"] for tensor in plain["outputs"]] == ["carry", "y"]
    carry = bytes(plain["outputs"][0]["data"])
    document["outputs"].append({"name": "carry", "parameters": {"binary_data": True}})
    answer = client.post_json("/v2/models/cumsum/infer", document)
    at = int(answer.headers["Inference-Header-Content-Length"])
    assert answer.body[at:] == carry and b'"data":[1,3,6]' in answer.body[:at]
    document["outputs"] = [{"name": "y", "parameters": {"binary_data": True}}]
    answer = client.post_json("/v2/models/cumsum/infer", document)
    at = int(answer.headers["Inference-Header-Content-Length"])
    assert answer.body[at:] == np.int32([1, 3, 6]).tobytes()
    assert bytes(json.loads(answer.body[:at])["outputs"][0]["data"]) == carry


@pytest.mark.parametrize("binary", [False, True])
def test_v2_answers_the_carry_alone_where_outputs_names_nothing_else(client, binary):
    inputs = [{"name": "x", "shape": [3], "datatype": "INT32", "data": [1, 2, 3]}]
    parameters = {"part": "first", "binary_data_output": binary}
    document = {"inputs": inputs, "parameters": parameters}
    both = client.post_json("/v2/models/cumsum/infer", document)
    document["outputs"] = [{"name": "carry"}]
    alone = client.post_json("/v2/models/cumsum/infer", document)
    at = [int(a.headers.get("Inference-Header-Content-Length", 0)) for a in (both, alone)]
    answers = [json.loads(a.body[:n] if n > 0 else a.body) for a, n in zip((both, alone), at)]
    assert answers[1]["outputs"] == answers[0]["outputs"][:1]
    assert alone.headers["Content-Type"] == ("application/octet-stream" if binary else JSON)
    if binary:
        assert alone.body[at[1] :] == both.body[at[0] :][:-12]


def test_a_raw_binary_first_part_is_answered_as_json_where_it_asks_for_that(client):
    path = "/v2/models/cumsum_int32/infer?part=first&binary_data_output=false"
    headers = {"Inference-Header-Content-Length": "0"}
    answer = client.post(path, np.int32([1, 2, 3]).tobytes(), None, headers)
    assert answer.headers["Content-Type"] == JSON, answer
    carry, sums = answer.json()["outputs"]
    assert bytes(carry["data"]).startswith(b"TALLYSUM") and sums["data"] == [1, 3, 6]


# ---- cost ----


def test_clients_that_leave_inside_a_part_leave_nothing_behind(start_server):
    """Clients leave inside the carry, inside the part behind it, and during the scan."""
    server = start_server("--slice-bytes", "16KiB")
    client = server.client()
    lines = 20000
    stored = np.ones((500, lines), np.float32)
    carry, _ = split(post(client, dtypes.BY_NAME["float32"], stored[:300], part="first"))
    body = carry + stored.tobytes()
    path = f"/v1/cumsum?dtype=float32&shape=500,{lines}&part=next"
    headers = [("Content-Type", RAW), (LENGTH, str(len(carry)))]
    request = post_bytes(path, body, headers)
    head = len(request) - len(body)
    for end in (head + 1000, head + len(carry) + 1000, len(request)):
        for _ in range(3):
            wire = server.wire()
            wire.send(request[:end])
            wire.reset()
    again = split(post(client, dtypes.BY_NAME["float32"], stored, carry, part="next"))
    assert len(again[1]) == stored.nbytes
    client.close()
    until(lambda: server.metric("tally_memory_reserved_bytes") == 0, 60)


def test_more_lines_than_the_budget_holds_are_refused_at_once(start_server):
    server = start_server("--memory-budget", "64MiB")
    client = server.client()
    dtype = dtypes.BY_NAME["float32"]
    for lines in (10**7, 2**40, 2**62):
        answer = post(client, dtype, np.broadcast_to(np.float32(0), (0, 1)), part="first")
        assert answer.status == 200
        path = "/v1/cumsum" + calls.query(dtype="float32", shape=[0, lines], part="first")
        calls.expect_error(client.post(path, b"", RAW), 413, "too_large")
    stored = np.zeros((2, 1 << 19), np.float32)
    carry, out = split(post(client, dtype, stored, part="first"))
    assert out == stored.tobytes()
    split(post(client, dtype, stored, carry, part="last"))
    client.close()
    until(lambda: server.metric("tally_memory_reserved_bytes") == 0, 60)


@pytest.mark.parametrize("length", ["1", "64", "100000"])
def test_a_length_of_a_carry_beside_json_is_refused(pair, length):
    for client in pair:
        answer = client.post("/v1/cumsum", b'{"data": [1, 2]}', JSON, {LENGTH: length})
        assert answer.status == 400 and answer.json()["field"] == LENGTH, answer
        assert client.post("/v1/cumsum", b'{"data": [1, 2]}', JSON).json()["data"] == [1, 3]
