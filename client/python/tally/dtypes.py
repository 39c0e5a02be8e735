"""Element types: the type of the sums of an array, and the elements that are sent for them.

    elements_of(array, dtype)    -> Elements, which the service sums in the type `sums`

The type of the sums is the one that NumPy chooses: int64 for booleans and smaller signed integers,
uint64 for smaller unsigned integers, else the type of the elements. `dtype` names another one.
The service widens elements by itself. Other conversions are made here, but only those after which
the sums have the bits of numpy.cumsum(x, dtype=dtype):

    integers to integers     always: sums are exact modulo 2^n
    floats to integers       if the type holds every truncated element
    integers to floats       if no sum can exceed the integers that the type holds without gaps

Sums of floats in a narrower type are refused, because NumPy rounds every element and every sum.
timedelta64 is summed as int64; NaT counts as 0.

Failure: InvalidArgument. Thread: any.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tally.errors import InvalidArgument

Array = npt.NDArray[Any]

# The name of each type of sums on the wire, and its name in the Open Inference Protocol.
V2_NAMES = {
    **{"float16": "FP16", "bfloat16": "BF16", "float32": "FP32", "float64": "FP64"},
    **{"int8": "INT8", "int16": "INT16", "int32": "INT32", "int64": "INT64"},
    **{"uint8": "UINT8", "uint16": "UINT16", "uint32": "UINT32", "uint64": "UINT64"},
}
V2_INPUT_NAMES = {**V2_NAMES, "bool": "BOOL"}
# Wire names by type. bfloat16 is added when an array of this type is seen, because the type belongs
# to ml_dtypes.
_NAMES: dict[np.dtype[Any], str] = {
    np.dtype(name): name for name in V2_INPUT_NAMES if name != "bfloat16"
}
_INT64, _UINT64 = np.dtype(np.int64), np.dtype(np.uint64)
_USUAL_SUMS = {
    **{name: _INT64 for name in ("bool", "int8", "int16", "int32")},
    **{name: _UINT64 for name in ("uint8", "uint16", "uint32")},
}
# By type: the largest n for which every integer up to 2^n is a number of the type.
_INTEGER_BITS = {"float16": 11, "bfloat16": 8, "float32": 24, "float64": 53}
# Advice for elements that every conversion changes, by NumPy's kind of their type.
_NO_CONVERSION = {
    "c": "sum x.real and x.imag, each in a call of its own",
    "M": "points in time have no sum; sum the differences between them (numpy.diff)",
}
# Advice for elements of other types.
_TEXT = "numpy.asarray(x, 'int64') or numpy.asarray(x, 'float64') reads them as numbers"
_CONVERSIONS = {
    "f": "numpy.asarray(x, 'float64') rounds each of them first",
    "O": "dtype='int64' sums them if all are integers below 2^63; numpy.asarray(x, 'float64') "
    "rounds decimals, fractions and larger integers first",
    **{"S": _TEXT, "U": _TEXT, "T": _TEXT},
}


class Elements(NamedTuple):
    """Elements of a type that the service knows, and the types of their sums."""

    array: Array  # in the byte order of this machine
    name: str  # name of the elements' type on the wire
    sums: np.dtype[Any]  # type of the sums in the service's answer
    result: np.dtype[Any]  # type of the caller's array: `sums`, or timedelta64
    nat: Array | None  # True where x has NaT; None if it has none


def elements_of(
    array: Array, dtype: Any, length: float | None = None, seen: bool = True
) -> Elements:
    """Return the elements to send for `array`, and the types of their sums.

    length: elements of a line, inf if unknown. seen: False if `array` is empty and stands for
    elements that a worker reads later."""
    if array.dtype.kind == "m":
        return _times(array, dtype)
    wanted = None if dtype is None else sums_type(dtype)
    name = _name_of(array.dtype)  # None for a type in another byte order
    if name is None:
        _refuse_changes(array.dtype)
        array = array.astype(_native(array.dtype), copy=False)
        if _name_of(array.dtype) is None:
            array = _adopted(array, wanted)
        name = _NAMES[array.dtype]
    sums = _USUAL_SUMS.get(name, array.dtype) if wanted is None else wanted
    if wanted is not None and not _widens(array.dtype, sums):
        array = _converted(array, sums, length, seen)
        name = _NAMES[array.dtype]
    return Elements(array, name, sums, sums, None)


def name_of(dtype: np.dtype[Any]) -> str:
    """Return the name on the wire of a type that elements_of() or sums_type() returned."""
    return _NAMES[dtype]


def sums_type(dtype: Any) -> np.dtype[Any]:
    """Return the type of sums that `dtype` names."""
    return _known_type(dtype, V2_NAMES)


def element_type(dtype: Any) -> np.dtype[Any]:
    """Return the type of elements or sums that `dtype` names."""
    return _known_type(dtype, V2_INPUT_NAMES)


def _known_type(dtype: Any, names: dict[str, str]) -> np.dtype[Any]:
    if isinstance(dtype, str) and dtype == "bfloat16":
        try:
            import ml_dtypes
        except ImportError:
            raise InvalidArgument(
                "bfloat16 needs ml_dtypes, which the extra tally-client[bfloat16] installs",
                field="dtype",
            ) from None
        dtype = ml_dtypes.bfloat16
    wanted = _native(_parsed(dtype))
    if _name_of(wanted) not in names:
        raise InvalidArgument(
            f"dtype is {wanted}, expected one of {', '.join(names)}", field="dtype"
        )
    return wanted


def complex_types(array: Array, dtype: Any) -> tuple[np.dtype[Any], np.dtype[Any]]:
    """Return the type of the sums of a complex array, and the type of their two parts."""
    if array.dtype.itemsize > 16:
        raise InvalidArgument(
            f"elements of type {array.dtype} cannot be summed: numpy.asarray(x, 'complex128') "
            "rounds each of them first",
            field="dtype",
        )
    came = _native(array.dtype)
    sums = came if dtype is None else _native(_parsed(dtype))
    if sums.kind != "c":
        raise InvalidArgument(
            f"elements of type {came} cannot be summed as {sums}, which drops their imaginary "
            f"parts: {_NO_CONVERSION['c']}",
            field="x",
        )
    if not came.itemsize <= sums.itemsize <= 16:
        raise InvalidArgument(
            f"dtype is {sums}, but sums of {came} are "
            f"{'complex64 or ' if came.itemsize == 8 else ''}complex128: {_round_yourself(sums)}",
            field="dtype",
        )
    return sums, np.dtype(f"f{sums.itemsize // 2}")


def _parsed(dtype: Any) -> np.dtype[Any]:
    try:
        parsed: np.dtype[Any] = np.dtype(dtype)
        return parsed
    except (TypeError, ValueError, SyntaxError):  # NumPy evaluates some texts as Python
        raise InvalidArgument(
            f"there is no element type {dtype!r}, expected one such as 'float64', 'float32' or "
            "'int64'",
            field="dtype",
        ) from None


def _native(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the type in the byte order of this machine, or unchanged if it has no byte order."""
    try:
        native: np.dtype[Any] = dtype.newbyteorder("=")
        return native
    except TypeError:
        return dtype


def _name_of(dtype: np.dtype[Any]) -> str | None:
    name = _NAMES.get(dtype)
    if name is None and dtype.itemsize == 2 and dtype.isnative and dtype.name == "bfloat16":
        name = _NAMES[dtype] = "bfloat16"
    return name


def _kind(dtype: np.dtype[Any]) -> str:
    """Return b, f, i or u. For NumPy, bfloat16 has the kind of untyped bytes."""
    return "f" if _name_of(dtype) == "bfloat16" else dtype.kind


def _widens(came: np.dtype[Any], sums: np.dtype[Any]) -> bool:
    """Return whether the service takes `came` as elements of sums of type `sums`."""
    kinds = _kind(came) + _kind(sums)
    if kinds in ("ff", "ii", "uu", "ui"):
        return came == sums or came.itemsize < sums.itemsize
    return kinds in ("bi", "bu")


def _refuse_changes(dtype: np.dtype[Any]) -> None:
    """Refuse elements that every conversion to numbers would change."""
    advice = _NO_CONVERSION.get(dtype.kind)
    if dtype.names:
        advice = f"sum one of its fields, x[{dtype.names[0]!r}]"
    elif dtype.type is np.void and dtype.itemsize == 2:
        advice = (
            "if they are bfloat16, which files of NumPy do not name, x.view(ml_dtypes.bfloat16)"
        )
    elif dtype.type is np.void:
        advice = "they are bytes without a type: view them as what they are, x.view(dtype)"
    if advice is not None:
        raise InvalidArgument(f"elements of type {dtype} cannot be summed: {advice}", field="x")


def _adopted(array: Array, wanted: np.dtype[Any] | None) -> Array:
    """Return the elements of a type that the service does not know, converted to a type that it
    knows and that represents all of them."""
    came = array.dtype
    if wanted is not None:
        if came == np.object_ and wanted.kind in "iu":
            return _integers(array, wanted)
        for held in (np.dtype(np.int8), wanted, np.dtype(np.float64)):
            if np.can_cast(came, held):
                converted: Array = array.astype(held)
                return converted
    advice = _CONVERSIONS.get(came.kind, "convert them to a type of numbers first")
    for wide in ("int64", "float64"):
        if np.can_cast(came, wide):
            advice = f"give dtype={wide!r}, which holds all of their values"
            break
    raise InvalidArgument(f"elements of type {came} cannot be summed: {advice}", field="dtype")


def _integers(array: Array, wanted: np.dtype[Any]) -> Array:
    """Return Python objects as integers, if all of them are integers of the type."""
    try:
        converted: Array = array.astype(wanted)
    except (ValueError, TypeError, OverflowError) as error:
        raise InvalidArgument(f"x cannot become {wanted}: {error}", field="x") from error
    integers = converted.reshape(-1).tolist()
    for (index, before), after in zip(np.ndenumerate(array), integers):
        if before != after and not isinstance(before, (str, bytes)):
            raise _not_held(index, before, wanted)
    return converted


def _converted(array: Array, sums: np.dtype[Any], length: float | None, seen: bool) -> Array:
    """Return the elements in the type of their sums. Refuses conversions after which the sums
    might differ from NumPy's."""
    came, kinds = array.dtype, _kind(array.dtype) + _kind(sums)
    if kinds == "ff":
        raise InvalidArgument(
            f"dtype is {sums}, which does not hold all values of {came}; NumPy would round every "
            f"element and every sum: {_round_yourself(sums)}",
            field="dtype",
        )
    if kinds in ("bf", "if", "uf"):
        bits = _INTEGER_BITS[_NAMES[sums]]
        most = _largest_magnitude(array) if seen else _largest_of(came)
        if not most * (array.size if length is None else length) <= 2**bits:
            raise InvalidArgument(
                f"dtype is {sums}, but sums of these elements of {came} may exceed 2^{bits}, and "
                f"{sums} does not hold all integers beyond; NumPy would round every sum: "
                f"{_round_yourself(sums)}",
                field="dtype",
            )
    elif kinds in ("fi", "fu"):
        _check_truncated(array, sums)
    converted: Array = array.astype(sums)
    return converted


def _round_yourself(sums: np.dtype[Any]) -> str:
    """Return the advice for a type of sums to which NumPy would round."""
    return (
        f"leave dtype out and convert the sums, or convert the elements first, "
        f"numpy.asarray(x, {sums.name!r})"
    )


def _largest_of(dtype: np.dtype[Any]) -> int:
    """Return the largest magnitude of a type of integers."""
    if dtype.kind == "b":
        return 1
    info = np.iinfo(dtype)
    return max(-int(info.min), int(info.max))


def _largest_magnitude(array: Array) -> int:
    """Return the largest magnitude of integers or booleans; 0 for an empty array."""
    return max(abs(int(array.min())), abs(int(array.max()))) if array.size > 0 else 0


def _check_truncated(array: Array, sums: np.dtype[Any]) -> None:
    """Raise InvalidArgument if an integer type does not hold the truncated elements. NumPy's
    result for such elements depends on the processor."""
    info = np.iinfo(sums)
    least, end = float(info.min), float(int(info.max) + 1)  # powers of two, or 0

    def holds(values: Any) -> Any:
        whole = np.trunc(values)
        return (whole >= least) & (whole < end)

    if array.size == 0 or (holds(float(array.min())) and holds(float(array.max()))):
        return
    for index, value in np.ndenumerate(array):
        if not holds(float(value)):
            raise _not_held(index, float(value), sums)


def _not_held(index: tuple[int, ...], value: Any, sums: np.dtype[Any]) -> InvalidArgument:
    place = f"x[{', '.join(map(str, index))}]" if index else "x"
    return InvalidArgument(f"{place} is {value!r}, which {sums} does not hold", field="x")


def _times(array: Array, dtype: Any) -> Elements:
    """Return the elements of timedelta64 as int64, with 0 for NaT."""
    came = _native(array.dtype)
    if dtype is not None and _native(_parsed(dtype)) != came:
        raise InvalidArgument(
            f"dtype is {_parsed(dtype)}, but sums of {came} have this type: leave dtype out and "
            "convert the sums, or convert the elements first, x.astype(dtype)",
            field="dtype",
        )
    nat: Array = np.asarray(np.isnat(array))
    integers: Array = array.astype(came, copy=False).view(np.int64)
    if not nat.any():
        return Elements(integers, "int64", _INT64, came, None)
    return Elements(np.where(nat, np.int64(0), integers), "int64", _INT64, came, nat)
