"""What the workers of test_dask_workers.py run: nothing else of the tests is imported in them."""

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
    """A block. Those of the second half wait until they may go on."""
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
    """What a task of this worker gets, without a word on whom to ask."""
    sums = tally.dask.cumsum(da.ones(3, chunks=3), 0)
    return sums.compute(scheduler="synchronous").tolist()
