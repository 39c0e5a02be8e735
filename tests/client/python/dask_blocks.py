"""The code that workers of test_dask_workers.py run; the workers import nothing else of the
tests."""

import pathlib
import time

import dask.array as da
import numpy as np
import tally.dask

WIDTH = 50001
CHUNKS = 12


def block_of(number):
    return np.random.default_rng(number).standard_normal((2, WIDTH)).astype(np.float32)


def make(folder, block_info=None):
    """Make a block. Blocks of the second half wait until the test lets them continue."""
    number = block_info[None]["chunk-location"][1]
    if number >= CHUNKS // 2:
        (pathlib.Path(folder) / "waits").touch()
        while not (pathlib.Path(folder) / "go").exists():
            time.sleep(0.01)
    return block_of(number)


def lazy(folder):
    chunks = ((2,), (WIDTH,) * CHUNKS)
    meta = np.empty((0, 0), np.float32)
    return da.map_blocks(make, str(folder), chunks=chunks, dtype=np.float32, meta=meta)


def beside():
    """Sum on this worker without a URL: tally.dask then uses the URL in the worker's
    environment."""
    sums = tally.dask.cumsum(da.ones(3, chunks=3), 0)
    return sums.compute(scheduler="synchronous").tolist()
