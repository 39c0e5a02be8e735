"""The types of results, as mypy infers them from the package's annotations."""

import os
import pathlib
import subprocess
import sys

TOP = pathlib.Path(__file__).resolve().parents[3]

PROGRAM = """
import numpy as np
import numpy.typing as npt
import tally
from typing_extensions import assert_type

class Frame:
    @property
    def iloc(self) -> int: ...
    @property
    def index(self) -> int: ...

Float32 = npt.NDArray[np.float32]

def blocking(
    client: tally.Client,
    floats: Float32,
    complexes: npt.NDArray[np.complex64],
    times: npt.NDArray[np.timedelta64],
    shorts: npt.NDArray[np.int16],
    longs: npt.NDArray[np.int64],
    booleans: npt.NDArray[np.bool_],
    octets: npt.NDArray[np.uint8],
    frame: Frame,
) -> None:
    assert_type(client.cumsum(floats), Float32)
    assert_type(client.cumsum(floats, 1, exclusive=True, nan="zero", offsets=[0, 1]), Float32)
    assert_type(client.cumsum(complexes), npt.NDArray[np.complex64])
    assert_type(client.cumsum(times), npt.NDArray[np.timedelta64])
    assert_type(client.cumsum(shorts), npt.NDArray[np.int64])
    assert_type(client.cumsum(longs), npt.NDArray[np.int64])
    assert_type(client.cumsum(booleans, axis=0), npt.NDArray[np.int64])
    assert_type(client.cumsum(octets), npt.NDArray[np.uint64])
    assert_type(client.cumsum(shorts, dtype=np.float64), npt.NDArray[np.float64])
    assert_type(client.cumsum([1, 2], dtype=np.dtype(np.float32)), Float32)
    assert_type(client.cumsum([1.5], out=floats), Float32)
    assert_type(client.cumsum(frame, "columns"), Frame)
    assert_type(client.parts(0).cumsum(floats), Float32)
    assert_type(client.parts(0).cumsum(shorts, dtype=np.int32), npt.NDArray[np.int32])
    assert_type(client.parts(0).cumsum(frame), Frame)
    assert_type(client.empty(3), npt.NDArray[np.float64])
    assert_type(client.empty((3, 4), np.float32), Float32)
    assert_type(client.version(), str)
    assert_type(tally.cumulative_sum(floats), Float32)
    assert_type(tally.cumulative_sum(booleans), npt.NDArray[np.int64])
    client.cumsum([1, 2], dtype="float32")
    client.cumsum(floats, unknown=1)  # type: ignore[call-overload]

async def of_asyncio(client: tally.AsyncClient, floats: Float32, frame: Frame) -> None:
    assert_type(await client.cumsum(floats), Float32)
    assert_type(await client.cumsum([1], dtype=np.int8), npt.NDArray[np.int8])
    assert_type(await client.cumsum(frame), Frame)
    assert_type(await client.parts(0).cumsum(floats), Float32)
    assert_type(await client.empty((3, 4), np.float32), Float32)
    assert_type(await client.version(), str)

def of_busy(error: tally.Busy) -> float | None:
    return error.retry_after
"""


def test_results_have_the_element_type_of_the_array_or_of_dtype(tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    command = [sys.executable, "-m", "mypy", "--strict", "--disable-error-code=empty-body"]
    done = subprocess.run(
        [*command, "--cache-dir", TOP / "build" / "mypy", "program.py"],
        cwd=tmp_path,
        env={**os.environ, "MYPYPATH": str(TOP / "client" / "python")},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
