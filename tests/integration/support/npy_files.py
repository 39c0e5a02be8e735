"""NPY files with a given literal as type, and the literals that NumPy accepts or refuses."""

import struct

CODES = "bBhHiIlLqQnNpPefd"
NAMES = [
    *("float16", "float32", "float64", "half", "single", "double", "float"),
    *("int8", "int16", "int32", "int64", "byte", "short", "intc", "int", "int_", "long"),
    *("uint8", "uint16", "uint32", "uint64", "ubyte", "ushort", "uintc", "uint", "ulong"),
    *("intp", "uintp", "longlong", "ulonglong"),
]
ORDERED = [order + code for order in ("<", ">", "=", "|", "") for code in CODES]
USUAL = [order + code for order in "<>" for code in ("f2", "f4", "f8", "i1", "u2", "i4", "u8")]
NO_TYPES = [
    "<float32",
    "=int64",
    "Float32",
    "f3",
    "l8",
    "e2",
    "?1",
    "!f4",
    "@f4",
    "||i4",
    "u",
    "I4",
]
NOT_SUMMED = [
    "g",
    "longdouble",
    "F",
    "D",
    "complex64",
    "c",
    "S3",
    "<U2",
    "O",
    "<M8[s]",
    "m8[s]",
    "V1",
]


def file_of(literal, data, fortran=False, shape="(2, 3)"):
    """An NPY file with this literal as its descr."""
    header = f"{{'descr': {literal}, 'fortran_order': {fortran}, 'shape': {shape}}}\n".encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + data
