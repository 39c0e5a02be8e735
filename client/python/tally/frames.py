"""pandas DataFrames and Series.

    prepare_call()      check the arguments of cumsum(); the sums of a frame have its labels
    as_block()          convert a frame of one element type to the array of a part or of totals

The columns of each element type are one array, so a frame of one type is one request, and a frame
of several types is one request for each type. The rules of pandas apply to frames: axis None is 0,
and nan None is "skip". In types with pandas.NA ("Int64", "boolean", ...) each
pandas.NA is sent as 0 or NaN, and its sum becomes pandas.NA.

This module does not import pandas: an object can be a frame only if the caller imported pandas.

Failure: InvalidArgument, which names the columns. Thread: any.
"""

from __future__ import annotations

import sys
from typing import Any, NamedTuple

import numpy as np

from tally.arrays import as_array
from tally.carry import NANS
from tally.dtypes import Array
from tally.errors import InvalidArgument
from tally.layout import axis_number
from tally.prepare import Sums, prepare_sums, with_one_deadline

_AXES = {"index": 0, "rows": 0, "columns": 1}  # pandas' names
# Types of pandas with a mask for pandas.NA, and the types of their elements.
_MASKED = {
    "boolean": "bool",
    **{f"Int{bits}": f"int{bits}" for bits in (8, 16, 32, 64)},
    **{f"UInt{bits}": f"uint{bits}" for bits in (8, 16, 32, 64)},
    **{f"Float{bits}": f"float{bits}" for bits in (32, 64)},
}
_MASKED_SUMS = {elements: name for name, elements in _MASKED.items()}
_NAMES_SHOWN = 3  # columns named in an error


def is_frame(x: Any) -> bool:
    """Return whether `x` is a DataFrame or a Series."""
    pandas = sys.modules.get("pandas")
    # While another thread imports pandas, the module may exist without its classes.
    classes = getattr(pandas, "DataFrame", ()), getattr(pandas, "Series", ())
    return isinstance(x, classes)


def prepare_call(x: Any, axis: Any, out: Any, offsets: Any, groups: Any, **options: Any) -> Sums:
    """Check the arguments of cumsum() for an array or a frame."""
    if not is_frame(x):
        return prepare_sums(x, axis, out, offsets, groups, **options)
    if out is not None:
        raise InvalidArgument(
            "out is given, but the sums of a DataFrame or Series are a new one: leave it out, or "
            "sum x.to_numpy()",
            field="out",
        )
    refuse_include_initial(options["include_initial"])
    if options["nan"] is None:
        options["nan"] = "skip"
    across = _frame_axis(x, axis) == 1
    table = x.to_frame() if x.ndim == 1 else x.T if across else x
    blocks = [
        _block(table, columns, offsets, groups, across, options) for columns in _by_type(table)
    ]
    scans = [scan for block in blocks for scan in block.sums.scans]

    def result() -> Any:
        found = _joined(table, blocks)
        if x.ndim == 1:
            series = found.iloc[:, 0]
            series.name = x.name
            return series
        return found.T if across else found

    return Sums(with_one_deadline(scans), result)


def as_block(x: Any, axis: Any, nan: Any) -> tuple[Any, Any, Any]:
    """Return array, axis and nan for a frame with a single type; for other objects, the
    arguments."""
    if not is_frame(x):
        return x, axis, nan
    types = [x.dtype] if x.ndim == 1 else list(dict.fromkeys(x.dtypes))
    if len(types) != 1 or not isinstance(types[0], np.dtype):
        raise InvalidArgument(
            f"x has elements of {', '.join(map(str, types)) or 'no type'}, expected one type of "
            "NumPy, because a carry has one type: x.astype('float64')",
            field="x",
        )
    return x.to_numpy(), _frame_axis(x, axis), "skip" if nan is None else nan


def labelled(x: Any, sums: Array) -> Any:
    """Return the sums of a block with the labels of `x`, if it is a frame."""
    if not is_frame(x):
        return sums
    if x.ndim == 1:
        return _pandas().Series(sums, index=x.index, name=x.name, copy=False)
    return _pandas().DataFrame(sums, index=x.index, columns=x.columns, copy=False)


def _pandas() -> Any:
    return sys.modules["pandas"]


class _Block(NamedTuple):
    """The columns of one element type."""

    columns: list[int]
    sums: Sums
    masked: bool  # the type is one of pandas, with pandas.NA
    missing: Array | None  # True where the sums are pandas.NA


def _block(
    table: Any, columns: list[int], offsets: Any, groups: Any, across: bool, options: Any
) -> _Block:
    """Check the arguments of cumsum() for the columns of one element type."""
    part = table if len(columns) == table.shape[1] else table.iloc[:, columns]
    dtype = table.dtypes.iloc[columns[0]]
    masked = dtype.name in _MASKED
    missing: Array | None = None
    try:
        if masked:
            array, missing = _unmasked(part, np.dtype(_MASKED[dtype.name]), options["nan"])
        elif isinstance(dtype, np.dtype):
            array = part.to_numpy()
        else:
            raise InvalidArgument(
                f"elements of type {dtype} cannot be summed: convert them first, "
                "x.astype('float64') or x.astype('Int64')",
                field="x",
            )
        return _Block(
            columns, prepare_sums(array, 0, None, offsets, groups, **options), masked, missing
        )
    except InvalidArgument as error:
        if error.field in ("x", "dtype") and table.shape[1] > 1 and not across:
            names = [repr(table.columns[column]) for column in columns[:_NAMES_SHOWN]]
            names += ["..."] if len(columns) > _NAMES_SHOWN else []
            advice = "; or sum the columns of numbers alone, x.select_dtypes('number')"
            error.args = (
                f"column{'s' * (len(columns) > 1)} {', '.join(names)}: {error}"
                f"{'' if dtype.kind in 'biufc' else advice}",
            )
        raise


def _unmasked(part: Any, elements: np.dtype[Any], nan: Any) -> tuple[Array, Array | None]:
    """Return the elements of columns with a mask, and the places of pandas.NA in the sums."""
    missing = as_array(part.isna())
    if elements.kind == "f":
        return as_array(part.to_numpy(elements, na_value=np.nan)), None
    array = as_array(part.to_numpy(elements, na_value=0))
    if not missing.any() or nan == "zero":
        return array, None
    if nan == NANS[0]:
        raise InvalidArgument(
            "nan is 'propagate', but sums of integers skip pandas.NA: leave nan out, or give "
            "'zero' for sums without pandas.NA",
            field="nan",
        )
    return array, missing


def _by_type(table: Any) -> list[list[int]]:
    """Return the columns of each element type."""
    found: dict[Any, list[int]] = {}
    for column, dtype in enumerate(table.dtypes):
        found.setdefault(dtype, []).append(column)
    return list(found.values())


def _joined(table: Any, blocks: list[_Block]) -> Any:
    """Return the sums of all blocks as a frame with the labels of `table`."""
    if not blocks:
        return table.copy()
    frames = [_frame_of(block, table.index) for block in blocks]
    found = frames[0]
    if len(frames) > 1:
        found = _pandas().concat(frames, axis=1)[list(range(table.shape[1]))]
    found.columns = table.columns
    return found


def _frame_of(block: _Block, index: Any) -> Any:
    """Return the sums of a block, with the positions of the columns as their labels."""
    sums = block.sums.result()
    found = _pandas().DataFrame(sums, index=index, columns=block.columns, copy=False)
    if block.masked and sums.dtype.name in _MASKED_SUMS:
        found = found.astype(_MASKED_SUMS[sums.dtype.name])
    return found if block.missing is None else found.mask(block.missing)


def _frame_axis(x: Any, axis: Any) -> int:
    if axis is None:
        return 0
    if isinstance(axis, str):
        if axis not in _AXES:
            raise InvalidArgument(
                f"axis is {axis!r}, expected 0, 1, 'index' or 'columns'", field="axis"
            )
        axis = _AXES[axis]
    return axis_number(axis, x.ndim)


def refuse_include_initial(flag: Any) -> None:
    """Raise InvalidArgument for include_initial with a frame."""
    if flag:
        raise InvalidArgument(
            "include_initial is given, but the sum before the first element has no label: sum "
            "x.to_numpy()",
            field="include_initial",
        )
