"""Checks of the attributes of a sum, except its axis and types.

Failure: InvalidArgument. Thread: any.
"""

from __future__ import annotations

import datetime
import math
import operator
from typing import Any, Literal

import numpy as np

from tally.carry import FLOATS, NANS
from tally.dtypes import name_of
from tally.errors import InvalidArgument
from tally.layout import Operand

NaN = Literal["propagate", "zero", "skip"]
# Attributes by name: True for a flag that is set, a text for an infinite or NaN initial value. The
# service has defaults for attributes that are not given.
Attributes = dict[str, str | int | float]


def attributes_of(
    operand: Operand,
    exclusive: Any = False,
    reverse: Any = False,
    nan: Any = None,
    initial: Any = None,
    include_initial: Any = False,
) -> Attributes:
    """Return the attributes of the sums of an operand."""
    attributes: Attributes = {}
    for name, flag in (
        ("exclusive", exclusive),
        ("reverse", reverse),
        ("include_initial", include_initial),
    ):
        if flag is not False and not isinstance(flag, (bool, np.bool_)):
            raise InvalidArgument(f"{name} is {flag!r}, expected True or False", field=name)
        if flag:
            attributes[name] = True
    if "exclusive" in attributes and "include_initial" in attributes:
        raise InvalidArgument(
            "include_initial and exclusive are both True: an exclusive sum begins with the initial "
            "value already; leave include_initial out for n sums, or exclusive for n + 1",
            field="include_initial",
        )
    sums = name_of(operand.sums)
    if sums != ("int64" if operand.dtype == "bool" else operand.dtype):
        attributes["output_dtype"] = sums
    if _checked_nan(operand, nan) != NANS[0] and sums in FLOATS:
        attributes["nan"] = nan
    if initial is not None:
        attributes["initial"] = _initial(initial, operand)
    return attributes


def _checked_nan(operand: Operand, nan: Any) -> str:
    if nan is None:
        return NANS[0]
    if nan not in NANS:
        raise InvalidArgument(f"nan is {nan!r}, expected one of {', '.join(NANS)}", field="nan")
    if operand.result.kind == "m" and nan == NANS[0]:
        raise InvalidArgument(
            "nan is 'propagate', but sums of timedelta64 skip NaT: leave nan out, or give 'zero' "
            "for sums without NaT",
            field="nan",
        )
    return str(nan)


def _initial(value: Any, operand: Operand) -> str | int | float:
    """Return an initial value of the type of the sums."""
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value[()]
    kind = operand.result
    found: int | float | None = None
    if kind.kind == "m":
        found = _duration(value, kind)
    elif not isinstance(value, (str, bytes, complex, np.complexfloating)):
        found = _number(value, name_of(kind) in FLOATS)
    if found is None:
        expected = "an integer" if kind.kind in "iu" else "a number"
        expected = "a duration that this type holds" if kind.kind == "m" else expected
        raise InvalidArgument(
            f"initial is {value!r}, expected {expected}: the sums are of type {kind}",
            field="initial",
        )
    if not _is_held(found, operand.sums):
        raise InvalidArgument(
            f"initial is {value!r}, which is out of range for the type of the sums, {operand.sums}",
            field="initial",
        )
    if math.isfinite(found):
        return found
    return "NaN" if math.isnan(found) else "Infinity" if found > 0 else "-Infinity"


def _number(value: Any, is_float: bool) -> int | float | None:
    try:
        return int(operator.index(value))
    except TypeError:
        pass
    try:
        return float(value) if is_float else None
    except (TypeError, ValueError):
        return None
    except OverflowError:  # an integer or a fraction
        return math.inf


def _duration(value: Any, kind: np.dtype[Any]) -> int | None:
    if not isinstance(value, (np.timedelta64, datetime.timedelta)) or np.isnat(
        np.timedelta64(value)
    ):
        return None
    converted = np.timedelta64(value).astype(kind)
    return int(converted.astype(np.int64)) if converted == value else None


def _is_held(value: int | float, sums: np.dtype[Any]) -> bool:
    """Return whether a number is within the range of a type. Infinities and NaN are within the
    range of every float type."""
    if name_of(sums) not in FLOATS:
        return int(np.iinfo(sums).min) <= value <= int(np.iinfo(sums).max)
    try:
        with np.errstate(over="ignore"):
            stored = float(np.array([float(value)]).astype(sums)[0])
    except OverflowError:
        return False
    return math.isinf(stored) == math.isinf(value)
