"""Types in the signatures of the clients.

The overloads of cumsum() derive the element type of the sums from that of the array and from
``dtype``, by the rules of tally.dtypes. A protocol represents the types of pandas, so that pandas
need not be installed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, SupportsIndex, TypedDict, TypeVar

import numpy as np
import numpy.typing as npt

from tally.attributes import NaN
from tally.dtypes import Array
from tally.parts import Progress


class Labelled(Protocol):
    """A pandas DataFrame or Series."""

    @property
    def iloc(self) -> Any: ...

    @property
    def index(self) -> Any: ...


class SupportsDLPack(Protocol):
    """An array of another library in this machine's memory."""

    def __dlpack__(self, *arguments: Any, **options: Any) -> Any: ...


AnyArray = npt.ArrayLike | SupportsDLPack
Axis = SupportsIndex | None
Shape = SupportsIndex | Sequence[SupportsIndex]
FrameAxis = SupportsIndex | str | None  # as in pandas, also "index" and "columns"

Frame = TypeVar("Frame", bound=Labelled)
Output = TypeVar("Output", bound=Array)
Scalar = TypeVar("Scalar", bound=np.generic)
# Elements whose sums have the same type.
Kept = TypeVar("Kept", bound=np.inexact[Any] | np.int64 | np.uint64 | np.timedelta64)
# Elements whose sums are int64 and uint64.
Signed = np.bool_ | np.int8 | np.int16 | np.int32
Unsigned = np.uint8 | np.uint16 | np.uint32


class SumOptions(TypedDict, total=False):
    """Arguments of cumsum() that do not change the type of the result."""

    exclusive: bool
    reverse: bool
    nan: NaN | None
    initial: Any
    include_initial: bool
    offsets: npt.ArrayLike | None
    groups: npt.ArrayLike | None
    deadline: float | None
    progress: Progress | bool | None
