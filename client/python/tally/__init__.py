"""Cumulative sums of NumPy arrays, computed by a Tally server.

    import numpy as np, tally

    with tally.Client("http://127.0.0.1:8000") as client:
        sums = client.cumsum(np.ones((3, 4), np.float32), axis=1)

:class:`Client` is a blocking client, which threads may share; :class:`AsyncClient` is for asyncio.
:func:`cumulative_sum` is the function of the Array API standard. Every error of the package is a
:class:`TallyError`. The distribution is called ``tally-client``.
"""

from tally.aio import AsyncClient, AsyncParts
from tally.carry import Carry
from tally.client import Client, Device, Health, Parts, cumulative_sum
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
    "cumulative_sum",
]
