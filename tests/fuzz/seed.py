"""Write fuzz inputs: tests/fuzz/corpus/<format>/golden-<case> from the golden requests, and the
scripts of tests/fuzz/corpus/wire (wire_script.h, wire_request.h).

python3 tests/fuzz/seed.py"""

import json
import pathlib
import struct
import zlib

TESTS = pathlib.Path(__file__).parent.parent
CORPUS = TESTS / "fuzz" / "corpus"
ANSWERS = {"application/json": b"0", "application/octet-stream": b"1", "application/x-npy": b"2"}


def golden():
    """Yields path, header lines and body of each golden request."""
    for request in sorted((TESTS / "golden").glob("*/*/request")):
        head, body = request.read_bytes().split(b"\n\n", 1)
        line, *headers = head.decode().split("\n")
        yield request.parts[-3], request.parts[-2], line, headers, body


def write(kind, name, data):
    target = CORPUS / kind / name
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(data)


for form, case, line, headers, body in golden():
    accept = next(h.split(": ")[1] for h in headers if h.startswith("Accept"))
    query = b"" if form == "json" else line.partition("?")[2].encode() + b"\n"
    write(form, f"golden-{case}", ANSWERS[accept] + query + body)


# Attributes of the elements in the JSON dialects (codec_driver.h) ---------------------------------

X = '{"name":"x","shape":[2,2],"datatype":"%s","data":%s}'
ELEMENTS = {
    ("kserve", "bool"): '{"inputs":[' + X % ("BOOL", "[true,false,true,true]") + "]}",
    ("kserve", "widened"): '{"inputs":[' + X % ("INT8", "[1,2,3,4]") + "],"
    '"outputs":[{"name":"y","datatype":"INT64"}],"parameters":{"axis":1,"include_initial":true}}',
    ("kserve", "nan"): '{"inputs":[' + X % ("FP16", '[1,"NaN",null,4]') + "],"
    '"parameters":{"nan":"skip","initial":-1.5e0,"output_dtype":"FP64"}}',
    ("kserve", "offsets"): '{"inputs":[' + X % ("INT8", "[1,2,3,4]") + ","
    '{"name":"offsets","shape":[3],"datatype":"INT64","data":[0,1,2]}]}',
    ("openvino", "bool"): '{"inputs":[{"precision":"boolean","shape":[2],"data":[true,false]}]}',
}
for (form, case), document in ELEMENTS.items():
    write(form, case, bytes(3) + document.encode())
write(
    "json", "offsets", b'0{"data":[1,2,3],"offsets":[0,1,1,3],"include_initial":true,"nan":"skip"}'
)

# Carries (fuzz_carry.c): of each kind one that fits its part, and some that do not ----------------

MENDED, CARRY_NPY, TOTALS, TO_JSON = 1, 2, 4, 8


def carry(dtype, flags, lines, position, sums):
    rest = struct.pack("<BxB5xQQ24x", dtype + 1, flags, lines, position) + sums
    return b"TALLYSUM" + struct.pack("<II", 2, zlib.crc32(rest)) + rest


def floats(*lines):
    """Descriptors and words of lines. lines: (flags, position of the lowest word, words)."""
    descriptors = b"".join(bytes([flags, 0, low, len(words)]) for flags, low, words in lines)
    words = b"".join(word.to_bytes(8, "little") for _, _, words in lines for word in words)
    return descriptors + bytes(-len(descriptors) % 8) + words


def part(name, flags, query, bytes_of_carry, payload):
    length = len(bytes_of_carry).to_bytes(2, "little")
    write("carry", name, bytes([flags]) + length + query + b"\n" + bytes_of_carry + payload)


NPY_OF_3 = b"\x93NUMPY\x01\x00v\x00" + (
    b"{'descr': '<i4', 'fortran_order': False, 'shape': (3,), }".ljust(117) + b"\n"
)
ROWS = b"dtype=float32&shape=2,3&axis=1&part="
part("first", 0, ROWS + b"first", b"", bytes(24))
part("first-json", TO_JSON, ROWS + b"first", b"", bytes(24))
ZEROS, NONE, NAN, ONE = (8, 0, []), (0, 0, []), (1, 0, []), (0, 2, [1 << 21])
TWO = floats(ONE, NAN)
part("next", 0, ROWS + b"next", carry(2, 0, 2, 256, TWO), bytes(24))
part("next-odd", MENDED, ROWS + b"next", carry(2, 0, 2, 3, floats(ZEROS, NONE)), bytes(24))
part("last", 0, ROWS + b"last", carry(2, 0, 2, 512, TWO), bytes(24))
part(
    "flags",
    0,
    ROWS + b"last&reverse=1&exclusive=1",
    carry(2, 3, 2, 0, floats(NONE, NONE)),
    bytes(24),
)
FULL = floats((0, 0, [3] * 33))
part("float64", 0, b"dtype=float64&shape=1&part=next", carry(3, 0, 1, 9, FULL), bytes(8))
part(
    "float16",
    0,
    b"dtype=float16&shape=1&part=next",
    carry(0, 0, 1, 255, floats((2, 0, []))),
    bytes(2),
)
part(
    "not-canonical",
    MENDED,
    ROWS + b"next",
    carry(2, 0, 2, 9, floats((0, 0, [0, 1]), NAN)),
    bytes(24),
)
part("int8", 0, b"dtype=int8&shape=3,2&part=last", carry(4, 0, 2, 77, bytes(2)), bytes(6))
part("no-elements", MENDED, b"dtype=int8&shape=0,2&part=next", carry(4, 0, 2, 1, bytes(2)), b"")
part("no-lines", MENDED, b"dtype=int8&shape=5,0&part=last", carry(4, 0, 0, 1, b""), b"")
part("npy", CARRY_NPY, b"part=next", carry(6, 0, 1, 9, bytes(4)), NPY_OF_3 + bytes(12))
part("npy-first", CARRY_NPY, b"part=first", b"", NPY_OF_3 + bytes(12))
part("far", MENDED, ROWS + b"next", carry(2, 0, 2, 2**63 - 256, TWO), bytes(24))
part("many", MENDED, ROWS + b"next", carry(2, 0, 2**59, 0, TWO), bytes(24))
part("totals", TOTALS, b"dtype=float32&shape=2,3&axis=1", b"", bytes(24))
part("totals-on", TOTALS, b"dtype=float32&shape=2,3&axis=1", carry(2, 0, 2, 9, TWO), bytes(24))
OFFSETS, ROW = 16, struct.pack("<4q", 0, 2, 2, 3)
part("offsets", OFFSETS, b"dtype=int8&shape=3&include_initial=1", ROW, bytes(3))
part("offsets-json", OFFSETS | TO_JSON, b"dtype=float16&shape=2,3&axis=1&nan=skip", ROW, bytes(12))
part("offsets-npy", OFFSETS | CARRY_NPY, b"reverse=1&initial=3", ROW, NPY_OF_3 + bytes(12))
part("offsets-fall", OFFSETS, b"dtype=int8&shape=3", struct.pack("<3q", 0, 2, 1), bytes(3))
part("without-part", 0, b"dtype=int8&shape=2", carry(4, 0, 1, 0, bytes(1)), bytes(2))


# Scripts of the wire fuzzer -------------------------------------------------------------------

REQUEST, BYTES, SEND, HALF_CLOSE, CLOSE, RESET, AWAIT, TIME, DEVICE, MEMORY, END = 0, *range(6, 16)
RAW, JSON, NPY, DIRECTML, OPENVINO, V2, _, SHM_PAGE, SHM_INFER, PAGE, BROADCAST, TOO_LONG = range(
    12
)
F16, BF16, F32, F64, I8, I16, I32, I64, U8, U16, U32, U64 = range(12)
SIZES = [4, 1, 2, 3, 5, 7, 8, 16, 33, 100, 256, 300, 1024, 1030, 4096, 0]
CHUNKED, GZIP, DEFLATE_CHUNKED, EXPECT, LEAVE, WANTS_GZIP, WANTS_DEFLATE = 1, 2, 3, 4, 8, 16, 32
EXCLUSIVE, REVERSE, LAST_AXIS = 1, 2, 4
HANGS, FAILS, FAILS_INTACT, SHORT = 4, 2, 1, 3
TCP = 3  # number of the client that uses TCP


def record(op, client=0, data=b""):
    return bytes([op | client << 4]) + len(data).to_bytes(2, "little") + bytes(data)


def ask(kind, dtype=I32, shape=(4,), flags=0, framing=0, deadline=0, share=0, client=0, edits=b""):
    at = [SIZES.index(size) for size in shape] + [0, 0]
    params = [kind, dtype, at[0] | (len(shape) - 1) << 6, at[1], at[2], flags, framing, deadline]
    count = 191 + len(edits) // 4 if edits else 0
    return record(REQUEST, client, bytes([*params, share, count]) + edits)


LARGE = (4096, 4)  # a shape that is cut into many slices
SCRIPTS = {
    "raw": ask(RAW),
    "raw-tcp": ask(RAW, U64, (3, 5), LAST_AXIS | REVERSE, client=TCP),
    "raw-large": ask(RAW, I64, LARGE),
    "raw-large-rows": ask(RAW, U8, LARGE, LAST_AXIS | EXCLUSIVE),
    "raw-empty": ask(RAW, I16, (0, 4)),
    "raw-as-json": ask(RAW, I8, (100,), 1 << 5),
    "raw-as-npy": ask(RAW, U16, (7, 8), 3 << 5),
    "json": ask(JSON, U64, (2, 3, 5), REVERSE),
    "json-long": ask(JSON, I64, (300,), framing=WANTS_GZIP),
    "json-as-raw": ask(JSON, I8, (100,), 2 << 5),
    "npy": ask(NPY, I16, (33, 3)),
    "npy-large-as-json": ask(NPY, U32, (1024,), 1 << 5, WANTS_DEFLATE),
    "directml": ask(DIRECTML, I32, (5, 7)),
    "directml-binary": ask(DIRECTML, U64, (16, 16), 32),
    "openvino": ask(OPENVINO, U8, (5, 7), EXCLUSIVE),
    "openvino-binary": ask(OPENVINO, I8, (16, 33), 32 | REVERSE | LAST_AXIS),
    "v2": ask(V2, I64, (5, 7), 128),
    "v2-binary": ask(V2, I32, (100, 3), 32),
    "v2-binary-both": ask(V2, U32, (300, 3), 32 | 64),
    "floats": b"".join(ask(RAW, dtype, (33,), 1 << 5) for dtype in (F16, BF16, F32, F64)),
    "chunked": ask(RAW, I32, (300,), framing=CHUNKED | EXPECT),
    "chunked-large": ask(NPY, U64, LARGE, framing=CHUNKED),
    "gzip": ask(JSON, I32, (100,), framing=GZIP | WANTS_GZIP),
    "deflate-chunked": ask(V2, U16, (100, 3), 32, DEFLATE_CHUNKED),
    "connection-close": ask(RAW, framing=LEAVE) + ask(RAW),
    "pipeline": b"".join(ask(kind, U32, (5,)) for kind in (RAW, JSON, V2, PAGE, NPY, OPENVINO)),
    "clients": b"".join(ask(RAW, I64, (1024,), client=client) for client in (0, 1, 2, TCP)),
    "pages": b"".join(ask(PAGE, flags=flags) for flags in range(25)),
    "heads": b"".join(ask(PAGE, flags=flags, shape=(4, 4, 4)) for flags in range(25)),
    "shared-memory": ask(SHM_PAGE)
    + ask(SHM_INFER, I32, (300,), 128)
    + ask(SHM_INFER, I32, (300,), 64)
    + ask(SHM_PAGE, flags=6)
    + ask(SHM_PAGE, flags=4),
    "in-parts": ask(RAW, I64, LARGE, share=64)
    + record(AWAIT)
    + record(SEND, 0, b"\x80")
    + record(AWAIT),
    "leave-in-header": ask(RAW, share=10) + record(AWAIT) + record(CLOSE),
    "leave-in-body": ask(RAW, I64, LARGE, share=128) + record(AWAIT) + record(CLOSE),
    "reset-in-body": ask(RAW, I64, LARGE, share=128, client=TCP)
    + record(AWAIT, TCP)
    + record(RESET, TCP),
    "half-close-in-body": ask(V2, U8, LARGE, 32, share=200) + record(HALF_CLOSE),
    "leave-waiting": record(DEVICE, 0, [HANGS, 0])
    + record(DEVICE, 0, [HANGS, 1])
    + ask(RAW, I64, LARGE)
    + ask(RAW, client=1)
    + record(AWAIT)
    + record(CLOSE)
    + record(HALF_CLOSE, 1)
    + record(TIME, 0, [2]),
    "leave-answer": ask(RAW, I64, LARGE) + record(END, 0, [0]) + record(CLOSE),
    "deadline": record(DEVICE, 0, [HANGS, 0])
    + record(DEVICE, 0, [HANGS, 1])
    + ask(RAW)
    + ask(RAW, client=1)
    + ask(RAW, deadline=220, client=2)
    + record(AWAIT, 2)
    + record(TIME, 0, [1])
    + record(AWAIT, 2),
    "device-hangs": record(DEVICE, 0, [HANGS, 0])
    + record(DEVICE, 0, [HANGS, 1])
    + ask(RAW, I64, LARGE)
    + ask(JSON, client=1)
    + record(TIME, 0, [8])
    + record(AWAIT),
    "device-fails": record(DEVICE, 0, [FAILS_INTACT, 0])
    + ask(RAW, I64, LARGE)
    + ask(RAW, client=1),
    "devices-fail": record(DEVICE, 0, [FAILS, 0])
    + record(DEVICE, 0, [FAILS, 1])
    + ask(RAW, I64, LARGE)
    + ask(RAW, client=1),
    "device-short": record(DEVICE, 0, [SHORT, 0]) + ask(RAW) + ask(RAW, client=1),
    "no-memory": record(MEMORY, 0, [8]) + ask(RAW, I64, LARGE) + ask(RAW, client=1),
    "slow-header": ask(RAW, share=20) + record(TIME, 0, [6]),
    "slow-body": ask(RAW, I64, LARGE, share=20) + record(TIME, 0, [9]),
    "drain": ask(RAW, I64, LARGE, share=128)
    + record(AWAIT)
    + ask(RAW, client=1)
    + record(END, 0, [200]),
    "stop": ask(RAW, I64, LARGE, share=128)
    + record(AWAIT)
    + ask(RAW, client=1)
    + record(END, 0, [255]),
    "long-answer": ask(BROADCAST, client=TCP) + ask(RAW, client=TCP),
    "long-answer-unread": ask(BROADCAST) + record(END, 0, [0]) + record(TIME, 0, [8]),
    "broadcast": ask(BROADCAST, flags=1),
    "long-answer-packed": ask(BROADCAST, framing=WANTS_GZIP),
    "over-the-limit": ask(TOO_LONG) + ask(TOO_LONG, framing=CHUNKED, client=1),
    "far-over-the-limit": ask(TOO_LONG, flags=32)
    + ask(TOO_LONG, flags=32, framing=CHUNKED, client=1),
    "packed-over-the-limit": ask(TOO_LONG, flags=32, framing=GZIP),
    "edited": ask(RAW, edits=bytes([0, 5, 0, 5])),
    "found-compressed-without-payload": ask(NPY, I64, (1024,), 1 << 5, WANTS_GZIP | EXPECT),
}
for name, script in SCRIPTS.items():
    write("wire", name, script)

# Token files and the Authorization field of a request (fuzz_tokens.c) -----------------------------

KNOWN, METRICS, NO_FIELD = 1, 2, 4
LINE = b"ci:2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae"
TOKENS = {
    "line": (0, LINE + b"\n", b"Bearer foo"),
    "known": (KNOWN, LINE, b"Bearer tally_known"),
    "scope-missing": (KNOWN | METRICS, b"", b"bearer   x  "),
    "no-field": (NO_FIELD, b"# nothing\n\n", b""),
    "empty": (KNOWN, b"", b""),
    "scopes": (0, LINE + b":infer,metrics,admin\r\n" + LINE[:-1] + b"0:admin", b"Bearer"),
    "hash-twice": (0, LINE + b"\n\n" + LINE + b":admin", b"Bearer"),
    "scope-unknown": (0, LINE + b":root", b"Basic Zm9v"),
    "scope-empty": (0, LINE + b":infer,", b"Bearer \t"),
    "hash-short": (0, LINE[:-1], b"Bearerx"),
    "hash-letters": (0, LINE[:-1] + b"g", b"Bearer a,b"),
    "name-long": (0, b"n" * 65 + LINE[2:], b"Bearer \xff\xfe"),
    "name-missing": (0, LINE[2:], b"Bearer a b"),
    "found-more-behind": (KNOWN, b"", b"bearer   x # "),
}
for name, (flags, text, field) in TOKENS.items():
    write("tokens", name, bytes([flags]) + text + b"\0" + field + b"\0")

# Certificates of clients (fuzz_client_chain.c), well-formed except for their signatures -----------

TLS13, MESSAGE = 1, 2
EC, RSA = "06072a8648ce3d020106082a8648ce3d030107", "06092a864886f70d0101010500"


def der(tag, *parts):
    text = b"".join(parts)
    length = len(text).to_bytes(max(1, (len(text).bit_length() + 7) // 8), "big")
    head = length if len(text) < 128 else bytes([128 + len(length)]) + length
    return bytes([tag]) + head + text


def name(text):
    kind = der(6, bytes.fromhex("550403"))
    return der(0x30, der(0x31, der(0x30, kind, der(12, text))))


def key(kind, modulus_bits=0, exponent=65537):
    algorithm = der(0x30, bytes.fromhex(kind))
    if kind == EC:
        return der(0x30, algorithm, der(3, b"\0\4" + bytes(63) + b"\1"))
    numbers = (1 << modulus_bits - 1 | 1, exponent)
    texts = [number.to_bytes(number.bit_length() // 8 + 1, "big") for number in numbers]
    return der(0x30, algorithm, der(3, b"\0" + der(0x30, *(der(2, text) for text in texts))))


def names(count):
    return extension("551d11", der(0x30, *[der(0x82, b"a")] * count))


def extension(oid, text):
    return der(0x30, der(6, bytes.fromhex(oid)), der(4, text))


def certificate(public=key(EC), *extensions):
    signature = der(0x30, bytes.fromhex("06082a8648ce3d040302"))
    times = der(0x30, *[der(0x17, year + b"0101000000Z") for year in (b"25", b"49")])
    fields = [der(0xA0, b"\2\1\2"), der(2, b"\1"), signature, name(b"ca"), times, name(b"client")]
    more = [der(0xA3, der(0x30, *extensions))] if extensions else []
    signed = der(3, b"\0" + der(0x30, der(2, b"\1"), der(2, b"\1")))
    return der(0x30, der(0x30, *fields, public, *more), signature, signed)


def chain(*certificates):
    text = b"".join(len(c).to_bytes(3, "big") + c + bytes(2) for c in certificates)
    return b"\0" + len(text).to_bytes(3, "big") + text


PLAIN = certificate()
CHAINS = {
    "plain": (0, PLAIN),
    "names": (TLS13, certificate(key(EC), names(3))),
    "names-most": (TLS13, certificate(key(EC), names(127))),
    "names-too-many": (0, certificate(key(EC), names(128))),
    "names-of-both": (0, certificate(key(EC), names(100), extension("551d12", b"\x30\0"))),
    "extension-no-der": (0, certificate(key(EC), extension("2a030405", b"\xff" * 99))),
    "names-without-end": (0, certificate(key(EC), extension("551d11", b"0\x80\x82\0\0\0"))),
    "rsa": (0, certificate(key(RSA, 2048))),
    "rsa-longest": (0, certificate(key(RSA, 8192, 2**64 - 1))),
    "rsa-too-long": (0, certificate(key(RSA, 8193))),
    "rsa-exponent": (0, certificate(key(RSA, 2048, 2**64 + 1))),
    "chain": (TLS13 | MESSAGE, chain(PLAIN, certificate(key(EC), names(2)), PLAIN)),
    "chain-empty": (TLS13 | MESSAGE, chain()),
    "chain-of-nine": (TLS13 | MESSAGE, chain(*[PLAIN] * 9)),
    "cut": (0, PLAIN[:-1]),
}
for case, (flags, text) in CHAINS.items():
    write("client_chain", case, bytes([flags]) + text)

for form, case, line, headers, body in golden():
    if not case.startswith("error"):
        continue
    lines = [f"{line} HTTP/1.1", "Host: h", *headers, f"Content-Length: {len(body)}"]
    write(
        "wire",
        f"golden-{form}-{case}",
        record(BYTES, 0, "\r\n".join(lines).encode() + b"\r\n\r\n" + body),
    )

with open(TESTS / "conformance" / "cases.jsonl") as cases:
    requests = []
    for case in map(json.loads, cases):
        fields = ("dtype", "shape", "axis", "exclusive", "reverse")
        document = {field: case[field] for field in fields if field in case}
        body = json.dumps({**document, "data": case["input"]}).encode()
        head = f"POST /v1/cumsum HTTP/1.1\r\nHost: h\r\nContent-Length: {len(body)}\r\n\r\n"
        requests.append(record(BYTES, len(requests) % 4, head.encode() + body))
    for at in range(0, len(requests), 12):
        write("wire", f"conformance-{at:02}", b"".join(requests[at : at + 12]))
