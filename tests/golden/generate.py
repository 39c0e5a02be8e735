"""Write the golden requests of /v1/cumsum, with the answers that the tests' oracle and NumPy's
number formatting give: tests/golden/<format>/<case>/{request,response}.

    python3 tests/golden/generate.py        (needs NumPy)

A request file is a request line with the query, header lines, an empty line and the body; a
response file is a status slug, header lines, an empty line and the body. The service is never
asked: if its bytes differ from these, one of the two sides has a bug."""

import io
import json
import pathlib
import shutil
import sys

import numpy as np

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "integration"))
from support import dtypes, oracle  # noqa: E402

TYPES = {
    "json": "application/json",
    "raw": "application/octet-stream",
    "npy": "application/x-npy",
}


def scan(x, axis=0, exclusive=False, reverse=False):
    """The oracle's scan: sums of floats are exact and rounded once, sums of integers wrap."""
    return oracle.cumsum(dtypes.BY_NAME[x.dtype.name], x, axis, exclusive, reverse)


def number(value):
    """The shortest text from which the same number of the value's type can be read, in Python's
    notation. An exponent has no '+' and no leading zeros."""
    if value.dtype.kind != "f":
        return str(int(value))
    if np.isnan(value):
        return '"NaN"'
    if np.isinf(value):
        return '"Infinity"' if value > 0 else '"-Infinity"'
    if value == 0:
        return "-0.0" if np.signbit(value) else "0.0"
    digits, exponent = np.format_float_scientific(value, unique=True, trim="-").split("e")
    if -4 <= int(exponent) < 16:
        return np.format_float_positional(value, unique=True, trim="0")
    return f"{digits}e{int(exponent)}"


def text(x, shape=None):
    shape = x.shape if shape is None else shape
    if len(shape) == 1:
        return "[" + ",".join(number(v) for v in x.reshape(-1)) + "]"
    return "[" + ",".join(text(part, shape[1:]) for part in x) + "]"


def answer(form, y, nested, strides=None):
    shape = ",".join(str(n) for n in y.shape)
    if form == "json":
        data = text(y if nested else y.reshape(-1))
        return [], f'{{"dtype":"{y.dtype}","shape":[{shape}],"data":{data}}}'.encode()
    if form == "raw":
        return [f"Tally-Dtype: {y.dtype}", f"Tally-Shape: {shape}"], y.tobytes()
    out = io.BytesIO()
    np.lib.format.write_array(out, np.ascontiguousarray(y), version=(1, 0))
    return [], out.getvalue()


def write(form, case, query, body, slug, headers, response, accept=None):
    accept = accept or form
    folder = HERE / form / case
    folder.mkdir(parents=True)
    request = [
        f"POST /v1/cumsum{query}",
        f"Content-Type: {TYPES[form]}",
        f"Accept: {TYPES[accept]}",
    ]
    (folder / "request").write_bytes("\n".join(request).encode() + b"\n\n" + body)
    if slug == "ok":
        headers = [f"Content-Type: {TYPES[accept]}"] + headers
    (folder / "response").write_bytes("\n".join([slug] + headers).encode() + b"\n\n" + response)


def npy(x, version=(1, 0)):
    out = io.BytesIO()
    np.lib.format.write_array(out, x, version=version)
    return out.getvalue()


def query_of(**options):
    pairs = "&".join(f"{k}={str(v).lower()}" for k, v in options.items())
    return "?" + pairs if pairs else ""


def good_json():
    def case(name, x, fields, nested, accept="json", dtype=True, data=None, **options):
        y = scan(x, **options)
        body = {"data": "@"} | ({"dtype": str(x.dtype)} if dtype else {}) | fields | options
        data = data or text(x if nested else x.reshape(-1))
        request = json.dumps(body).replace('"@"', data).encode()
        headers, response = answer(accept, y, nested)
        write("json", name, "", request, "ok", headers, response, accept)

    f32 = np.array([[2, 1, 3, 5], [3, 8, 7, 3], [9, 6, 2, 4]], np.float32)
    case("nested", f32, {}, True, axis=1)
    case("nested_exclusive", f32, {}, True, axis=0, exclusive=True)
    case("nested_reverse", f32, {}, True, axis=-1, reverse=True)
    case("flat", f32, {"shape": [3, 4]}, False, axis=1, reverse=True, exclusive=True)
    case("flat_three_dimensions", f32.reshape(3, 2, 2), {"shape": [3, 2, 2]}, False, axis=1)
    case("inferred_int64", np.array([1, -2, 3]), {}, True, dtype=False)
    case("inferred_float64", np.array([1, 0.1, 0.2]), {}, True, dtype=False, data="[1,0.1,0.2]")
    case("float16", np.array([0.1, 0.2, 65504, 1e-7], np.float16), {}, True)
    case("float64", np.array([[0.1, 0.2], [5e-324, 0], [1e22, 1e16], [1e-7, 1]]), {}, True, axis=1)
    case("specials", np.array([1, np.inf, 1, -np.inf, 2]), {}, True)
    case("not_a_number", np.array([[1, np.nan, 2], [3, 4, 5]], np.float32), {}, True, axis=1)
    case("negative_zero", np.array([-0.0, -0.0]), {}, True)
    case("int8_wraps", np.array([100, 100, 100], np.int8), {}, True)
    case("uint64_wraps", np.array([2**64 - 1, 2, 3], np.uint64), {}, True)
    case("empty", np.zeros((2, 0), np.float32), {}, True, axis=1)
    case("empty_flat", np.zeros((0, 3), np.int16), {"shape": [0, 3]}, False)
    case("to_raw", f32, {}, True, accept="raw", axis=1)
    case("to_npy", f32, {}, True, accept="npy", axis=1)


def good_binary():
    f32 = np.array([[[2, 1, 3, 5], [3, 8, 7, 3], [9, 6, 2, 4]]], np.float32)

    def raw(name, x, accept="raw", **options):
        headers, response = answer(accept, scan(x, **options), False)
        shape = ",".join(str(n) for n in x.shape)
        query = query_of(dtype=x.dtype, shape=shape, **options)
        write("raw", name, query, x.tobytes(), "ok", headers, response, accept)

    def file(name, x, body=None, accept="npy", **options):
        headers, response = answer(accept, scan(x, **options), False)
        query = query_of(**options)
        write("npy", name, query, body or npy(x), "ok", headers, response, accept)

    raw("float32", f32, axis=2)
    raw("float16", f32.astype(np.float16), axis=-1, exclusive=True)
    raw("uint8", np.array([200, 100, 7], np.uint8))
    raw("int64_reverse", np.array([[1, 2], [3, 2**62]]), axis=0, reverse=True)
    raw("empty", np.zeros((3, 0), np.float64), axis=1)
    raw("to_json", f32, accept="json", axis=1)
    raw("to_npy", f32, accept="npy", axis=1)
    for dtype in "f2 f4 f8 i1 i2 i4 i8 u1 u2 u4 u8".split():
        file(f"little_{dtype}", np.arange(6).reshape(2, 3).astype("<" + dtype), axis=1)
    big = np.arange(6).reshape(2, 3)
    for dtype in "f2 f4 f8 i2 i4 i8 u2 u4 u8".split():
        file(f"big_{dtype}", big.astype("<" + dtype), npy(big.astype(">" + dtype)), axis=1)
    file("fortran", f32[0], npy(np.asfortranarray(f32[0])), axis=0)
    cube = np.arange(24, dtype=np.int32).reshape(2, 3, 4)
    file("fortran_cube_big_endian", cube, npy(np.asfortranarray(cube.astype(">i4"))), axis=1)
    file("version_2", f32, npy(f32, (2, 0)), axis=1)
    file("version_3", f32, npy(f32, (3, 0)), axis=1, reverse=True)
    file("one_dimension", np.array([1.5, 2.5]), axis=-1, exclusive=True)
    file("empty", np.zeros((0, 2), np.float32), axis=1)
    file("to_json", f32, accept="json", axis=2)
    file("to_raw", f32, accept="raw", axis=2)


def strided():
    """Strides, encoded by hand because NPY files cannot hold them."""
    x = np.array([[1, 2, 3], [4, 5, 6]], np.int32)
    y = scan(x, 1)
    memory = np.zeros(9, np.int32)
    memory[[0, 1, 2, 5, 6, 7]] = x.reshape(-1)
    out = np.zeros(10, np.int32)
    for i in range(2):
        for k in range(3):
            out[i + 4 * k] = y[i, k]
    body = {
        "dtype": "int32",
        "shape": [2, 3],
        "axis": 1,
        "strides": [5, 1],
        "output_strides": [1, 4],
        "data": memory.tolist(),
    }
    reply = {"dtype": "int32", "shape": [2, 3], "strides": [1, 4], "data": out.tolist()}
    compact = json.dumps(reply, separators=(",", ":")).encode()
    write("json", "strides", "", json.dumps(body).encode(), "ok", [], compact)
    query = "?dtype=int32&shape=2,3&axis=1&strides=5,1&output_strides=1,4"
    headers = ["Tally-Dtype: int32", "Tally-Shape: 2,3"]
    write("raw", "strides", query, memory[:8].tobytes(), "ok", headers, out.tobytes())
    query = "?axis=1&output_strides=1,4"
    write("npy", "output_strides", query, npy(x), "ok", [], npy(out))
    repeated = np.cumsum(np.full((2, 3), 7, np.int32), 1, dtype=np.int32)
    query = "?dtype=int32&shape=2,3&axis=1&strides=0,0"
    write(
        "raw",
        "broadcast",
        query,
        x[:1, :1].tobytes().replace(b"\1", b"\7"),
        "ok",
        headers,
        repeated.tobytes(),
    )


def attributes():
    """Widened elements, booleans, NaN, and one additional sum."""
    mask = np.array([[True, False, True], [True, True, True]])
    sums = np.cumsum(mask, axis=1, dtype=np.int64)
    headers, response = answer("npy", sums, False)
    write("npy", "bool", "?axis=1", npy(mask), "ok", headers, response)
    small = np.array([200, 100, 55], np.uint8)
    headers, response = answer("raw", np.cumsum(small, dtype=np.int32), False)
    query = query_of(dtype="uint8", shape="3", output_dtype="int32")
    write("raw", "widened", query, small.tobytes(), "ok", headers, response)
    holes = np.array([[1, np.nan, 2.5], [np.nan, 4, 8]], np.float32)
    sums = np.nancumsum(holes, axis=1)
    for nan in ("zero", "skip"):
        shown = np.where(np.isnan(holes) & (nan == "skip"), np.float32("nan"), sums)
        body = f'{{"data":{text(holes)},"dtype":"float32","axis":1,"nan":"{nan}"}}'.encode()
        headers, response = answer("json", shown, True)
        write("json", f"nan_{nan}", "", body, "ok", headers, response)
    rows = np.array([[1, 2, 3], [4, 5, 6]])
    sums = np.concatenate([np.zeros((2, 1), np.int64), np.cumsum(rows, axis=1)], axis=1)
    headers, response = answer("json", sums, True)
    body = b'{"data":[[1,2,3],[4,5,6]],"axis":1,"include_initial":true}'
    write("json", "include_initial", "", body, "ok", headers, response)


def bad():
    def case(form, name, slug, field="", query="", body=b"", accept=None):
        headers = [f"Field: {field}"] if field else []
        write(form, name, query, body, slug, headers, b"", accept)

    case("json", "error_ragged", "invalid_shape", "data[1]", body=b'{"data":[[1,2],[3]]}')
    case("json", "error_unknown_field", "unknown_field", "axes", body=b'{"data":[1],"axes":0}')
    case("json", "error_no_data", "missing_field", "data", body=b'{"axis":0}')
    case(
        "json",
        "error_fraction",
        "invalid_data",
        "data[1]",
        body=b'{"dtype":"int32","data":[1,2.5]}',
    )
    case(
        "json",
        "error_range",
        "invalid_data",
        "data[1][0]",
        body=b'{"dtype":"int8","data":[[1,2],[200,3]]}',
    )
    case(
        "json",
        "error_inferred_range",
        "invalid_data",
        "data[1]",
        body=b'{"data":[5,9223372036854775808]}',
    )
    case("json", "error_axis", "invalid_axis", "axis", body=b'{"data":[1,2],"axis":1}')
    case("json", "error_syntax", "invalid_json", body=b'{"data":[1,2]')
    case(
        "json",
        "error_bfloat16_to_npy",
        "invalid_dtype",
        "dtype",
        body=b'{"dtype":"bfloat16","data":[1,2]}',
        accept="npy",
    )
    case("json", "error_query", "unknown_field", "axis", "?axis=0", b'{"data":[1,2]}')
    case("raw", "error_no_dtype", "missing_field", "dtype", "?shape=2", b"12345678")
    case("raw", "error_short", "length_mismatch", "", "?dtype=float32&shape=2", b"1234567")
    case("raw", "error_long", "length_mismatch", "", "?dtype=float32&shape=2", b"123456789")
    case("raw", "error_rank_0", "invalid_shape", "shape", "?dtype=float32&shape=", b"1234")
    case("npy", "error_scalar", "invalid_shape", "shape", "", npy(np.float32(1)))
    case("npy", "error_complex", "invalid_dtype", "descr", "", npy(np.array([1j])))
    case("npy", "error_text", "invalid_dtype", "descr", "", npy(np.array(["a"])))
    structured = np.zeros(2, [("a", "<f4"), ("b", "<i4")])
    case("npy", "error_structured", "invalid_dtype", "descr", "", npy(structured))
    whole = npy(np.arange(4.0))
    case("npy", "error_short", "length_mismatch", "", "", whole[:-1])
    case("npy", "error_long", "length_mismatch", "", "", whole + b"x")
    case("npy", "error_truncated_header", "invalid_npy", "", "", whole[:40])
    case("npy", "error_magic", "invalid_npy", "", "", b"PK\3\4" + whole)


if __name__ == "__main__":
    for form in TYPES:
        shutil.rmtree(HERE / form, ignore_errors=True)
    good_json()
    good_binary()
    strided()
    attributes()
    bad()
