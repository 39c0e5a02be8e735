"""Tally's element types as NumPy storage types, with bfloat16 as its bits in uint16."""

import numpy as np


class Dtype:
    """One element type: its names in every dialect, its storage in NumPy, exact conversions."""

    def __init__(self, name, storage, kserve, kind):
        self.name = name
        self.storage = np.dtype(storage)
        self.kserve = kserve
        self.kind = kind  # "f", "i" or "u"
        self.bytes = self.storage.itemsize

    def __repr__(self):
        return self.name

    @property
    def is_float(self):
        return self.kind == "f"

    @property
    def npy(self):
        return None if self.name == "bfloat16" else self.storage.newbyteorder("<").str

    def store(self, values):
        """Round values to this type once, to nearest even. Integers: exactly, wrapping."""
        if self.name == "bfloat16":
            return bfloat16_bits(np.asarray(values, np.float64))
        with np.errstate(all="ignore"):
            return np.asarray(values).astype(self.storage)

    def load(self, stored):
        """The exact values: float64 for floats, the integers themselves otherwise."""
        with np.errstate(invalid="ignore"):  # NumPy warns of signalling NaNs
            if self.name == "bfloat16":
                return (stored.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
            return stored.astype(np.float64) if self.is_float else stored

    def random(self, rng, shape):
        """Random values whose sums round, cancel and, for integers, wrap."""
        if not self.is_float:
            info = np.iinfo(self.storage)
            return rng.integers(info.min, info.max, size=shape, dtype=self.storage, endpoint=True)
        return self.store(rng.standard_normal(shape) * 8.0)

    def json_values(self, stored):
        """Nested lists for JSON: exact numbers; NaN and infinities are strings."""
        values = self.load(np.asarray(stored)).astype(object if not self.is_float else np.float64)
        return _json_of(values.tolist())

    def from_json(self, data):
        """The stored array of the data of a JSON answer, nested or flat."""
        specials = {"NaN": np.nan, "Infinity": np.inf, "-Infinity": -np.inf}

        def value(item):
            if isinstance(item, list):
                return [value(element) for element in item]
            return specials[item] if isinstance(item, str) else item

        if self.is_float:
            return self.store(np.array(value(data), np.float64))
        return np.array(value(data), object).astype(self.storage)


def _json_of(item):
    if isinstance(item, list):
        return [_json_of(element) for element in item]
    if isinstance(item, float):
        if item != item:
            return "NaN"
        if item in (float("inf"), float("-inf")):
            return "Infinity" if item > 0 else "-Infinity"
    return item


def bfloat16_bits(values):
    """Round float64 to bfloat16 once: the intermediate float32 is rounded to odd, which preserves
    the information for the second rounding."""
    with np.errstate(all="ignore"):
        near = values.astype(np.float32)
        exact = (near.astype(np.float64) == values) | np.isnan(values)
        too_far = np.abs(near.astype(np.float64)) > np.abs(values)
        toward_zero = np.nextafter(near, np.float32(0), dtype=np.float32)
        odd = np.where(too_far & ~exact, toward_zero, near).astype(np.float32)
        bits = odd.reshape(-1).view(np.uint32).reshape(odd.shape).astype(np.uint64)
    bits = np.where(exact, bits, bits | 1)
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
    rounded = np.where(np.isnan(values), 0x7FC0, rounded)
    return rounded.astype(np.uint16)


ALL = [
    Dtype("float16", np.float16, "FP16", "f"),
    Dtype("bfloat16", np.uint16, "BF16", "f"),
    Dtype("float32", np.float32, "FP32", "f"),
    Dtype("float64", np.float64, "FP64", "f"),
    Dtype("int8", np.int8, "INT8", "i"),
    Dtype("int16", np.int16, "INT16", "i"),
    Dtype("int32", np.int32, "INT32", "i"),
    Dtype("int64", np.int64, "INT64", "i"),
    Dtype("uint8", np.uint8, "UINT8", "u"),
    Dtype("uint16", np.uint16, "UINT16", "u"),
    Dtype("uint32", np.uint32, "UINT32", "u"),
    Dtype("uint64", np.uint64, "UINT64", "u"),
]
BY_NAME = {dtype.name: dtype for dtype in ALL}
FLOATS = [dtype for dtype in ALL if dtype.is_float]
INTEGERS = [dtype for dtype in ALL if not dtype.is_float]
