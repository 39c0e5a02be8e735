"""Cumulative sums of NumPy arrays, computed by a Tally server.

    import numpy as np, tally

    with tally.Client("http://127.0.0.1:8000") as client:
        sums = client.cumsum(np.ones((3, 4), np.float32), axis=1)

:class:`Client` blocks and may be shared by threads; :class:`AsyncClient` is for asyncio. What goes
wrong is a :class:`TallyError`.
"""

from tally.aio import AsyncClient, AsyncParts
from tally.carry import Carry
from tally.client import Client, Device, Health, Parts
from tally.errors import (
    BadAnswer,
    Busy,
    CallTimeout,
    ConnectFailed,
    ConnectionLost,
    DeadlineExceeded,
    InvalidArgument,
    Rejected,
    ServerError,
    TallyError,
    WrapWarning,
)

__version__ = "0.1.0"

__all__ = [
    "AsyncClient",
    "AsyncParts",
    "BadAnswer",
    "Busy",
    "CallTimeout",
    "Carry",
    "Client",
    "ConnectFailed",
    "ConnectionLost",
    "DeadlineExceeded",
    "Device",
    "Health",
    "InvalidArgument",
    "Parts",
    "Rejected",
    "ServerError",
    "TallyError",
    "WrapWarning",
]
