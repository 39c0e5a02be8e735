"""(g) tally.dask on three simulated machines (pairs.py): one float32 array in four chunkings. Every
chunking must give the SHA-256 of `tally cumsum` on the flat file, also when a tallyd or a worker
is killed in the middle. dask's own cumsum on the same chunks is measured for comparison.

The array has 8 GiB, or --bytes; --quick: 256 MiB. --out needs twice as much disk space.
All processes share the same processors: the times show the overhead of each way, not how it
would scale.
"""

import contextlib
import hashlib
import math
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

import load
from pairs import Pairs
from report import Goal, Row, failed

sys.path.insert(0, str(load.ROOT / "client" / "python"))

ROWS = 8
MEMORY = 512 << 20  # memory limit of a pair
BLOCK = 1 << 20  # elements per row in each input file
SECONDS = 900  # limit for one sum
FLAT = ("--dtype", "float32", "--axis", "1", "--quiet")


# Chunks with round sizes, and chunks that end at arbitrary positions.
CHUNKINGS = {
    "1 row of 8 Mi": (1, 1 << 23),
    "8 rows of 1 Mi": (8, 1 << 20),
    "2 rows of 4,000,001": (2, 4_000_001),
    "1 row of 9,999,999": (1, 9_999_999),
}


def make_input(folder, columns):
    """Write the array as a Zarr and as a flat file. Returns the digest of NumPy's sums of the whole
    array."""
    import numpy as np
    import zarr

    array = zarr.create_array(
        folder / "in.zarr",
        shape=(ROWS, columns),
        chunks=(1, min(BLOCK, columns)),
        dtype="float32",
        compressors=None,
    )
    base = np.random.default_rng(1).standard_normal(BLOCK, dtype=np.float32)
    rows = []
    with open(folder / "in.raw", "wb") as flat:
        for row in range(ROWS):
            rows.append(hashlib.sha256())
            sums = np.zeros(1, np.float32)
            for at in range(0, columns, BLOCK):
                block = base[: columns - at] * np.float32(1 + (row * columns + at) % 1009 / 97)
                array[row, at : at + BLOCK] = block
                flat.write(block)
                block[0] += sums[-1]
                sums = np.cumsum(block)
                rows[-1].update(sums)
    return joined(rows)


def joined(rows):
    return hashlib.sha256(b"".join(row.digest() for row in rows)).hexdigest()


def digest(array, chunks):
    """SHA-256 of the rows' SHA-256s; each chunk is read once."""
    rows = [hashlib.sha256() for _ in range(ROWS)]
    for top in range(0, ROWS, chunks[0]):
        for at in range(0, array.shape[1], chunks[1]):
            found = array[top : top + chunks[0], at : at + chunks[1]]
            for row, values in zip(rows[top:], found):
                row.update(values)
    return joined(rows)


class Runs:
    """The inputs of the runs, and the ways to sum them."""

    def __init__(self, settings, folder, pairs, client, columns, numpys):
        self.settings, self.folder, self.pairs, self.client = settings, folder, pairs, client
        self.columns, self.numpys = columns, numpys
        self.urls = [pair.url for pair in pairs.all]
        self.size = f"{math.ceil(ROWS * columns * 4 / (1 << 20))} MiB"

    def one_request(self):
        """Sum the flat file with the command and one tallyd. Returns (seconds, digest); the
        output is hashed and not stored."""
        flat = self.folder / "in.raw"
        command = [load.BIN / "tally", "cumsum", *FLAT, "--shape", f"{ROWS},{self.columns}"]
        command += ["--url", self.urls[0], flat]
        began = time.monotonic()
        child = load.start(command, stdout=subprocess.PIPE)
        rows = [hashlib.sha256() for _ in range(ROWS)]
        for row in rows:
            for at in range(0, self.columns, BLOCK):
                row.update(child.stdout.read(4 * min(BLOCK, self.columns - at)))
        if child.stdout.read(1) or child.wait(60) != 0:
            raise RuntimeError(f"tally cumsum ended with status {child.poll()}")
        seconds = time.monotonic() - began
        flat.unlink()
        return seconds, joined(rows)

    def summed(self, chunks, ours=True, disturb=None):
        """Sum the Zarr array with these chunks, and call `disturb` in the middle. Returns
        (seconds, digest)."""
        import dask.array as da
        import zarr

        import tally.dask

        out = self.folder / "out.zarr"
        began = time.monotonic()
        d = da.from_zarr(str(self.folder / "in.zarr"), chunks=chunks)
        sums = tally.dask.cumsum(d, 1, urls=self.urls) if ours else d.cumsum(axis=1)
        stored = sums.to_zarr(str(out), compute=False, compressors=None)
        future = self.client.compute(stored)
        try:
            if disturb is not None:
                third = math.prod(sums.numblocks) // 3
                while len(list(out.glob("c/*/*"))) < third and not future.done():
                    time.sleep(0.02)
                if future.done():
                    raise RuntimeError("it was over before anything could be killed")
                disturb()
            future.result(timeout=SECONDS)
            seconds = time.monotonic() - began
            return seconds, digest(zarr.open_array(out, mode="r"), chunks)
        finally:
            future.release()
            shutil.rmtree(out, ignore_errors=True)

    def restart(self, pair):
        """Restart the killed processes of a pair."""
        if pair.tallyd.poll() is not None:
            pair.start_tallyd()
            pair.wait_ready()
        if pair.worker.poll() is not None:
            pair.start_worker(self.client.scheduler.address, self.folder)
        self.client.wait_for_workers(len(self.pairs.all), timeout=60)

    def memory(self):
        """Largest peak memory of a worker, in MiB."""
        return max(load.rss_bytes(pair.worker.pid, "VmHWM") for pair in self.pairs.all) >> 20


def rows_of(runs):
    settings, pairs = runs.settings, runs.pairs.all
    one_seconds, wanted = runs.one_request()
    settings.note(f"{runs.size} by one tallyd: {one_seconds:.1f} s, SHA-256 {wanted}")
    ours, agree = {}, []

    def summed(name, chunks, disturb=None):
        seconds, found = runs.summed(chunks, disturb=disturb)
        agree.append(found == wanted)
        words = "the same bits" if agree[-1] else f"OTHER BITS: {found}"
        settings.note(f"{runs.size}, {name}: {seconds:.1f} s, {words}")
        return seconds

    for name, chunks in CHUNKINGS.items():
        ours[name] = summed(name, chunks), runs.memory()
    first, chunks = next(iter(CHUNKINGS.items()))
    undisturbed = ours[first][0]
    lost = {}
    lost["a tallyd killed"] = summed("a tallyd killed", chunks, pairs[1].tallyd.kill)
    runs.restart(pairs[1])
    lost["a worker killed"] = summed("a worker killed", chunks, pairs[2].worker.kill)
    runs.restart(pairs[2])

    rows = [
        Row(
            f"{runs.size}, sums with the SHA-256 of one request",
            "all of them",
            sum(agree) / len(agree),
            goal=Goal(">=", 1),
            notes=f"{sum(agree)} of {len(agree)}: {wanted[:16]}; {runs.pairs.words}; one tallyd "
            f"{one_seconds:.1f} s",
            one_seconds=one_seconds,
            sha256=wanted,
        )
    ]
    for name, seconds in lost.items():
        rows.append(Row(f"{runs.size}, {name}", "undisturbed", undisturbed / seconds))
        rows[-1].notes = f"{seconds:.1f} s"
    return [*rows, *beside_dask(runs, ours)]


def beside_dask(runs, ours):
    """dask's own cumsum on the same chunks: its time, and whether its bits equal NumPy's sums of
    the whole array."""
    agree, seen, rows = 0, set(), []
    for name, chunks in CHUNKINGS.items():
        (seconds, memory), own_seconds = ours[name], None
        try:
            own_seconds, found = runs.summed(chunks, ours=False)
            agree += found == runs.numpys
            seen.add(found)
            notes = f"dask's own {own_seconds:.1f} s"
        except Exception as error:  # any error that a worker raises when it runs out of memory
            notes = f"dask's own failed ({type(error).__name__})"
        runs.settings.note(f"{runs.size}, {name}: {notes}")
        rows.append(
            Row(
                f"{runs.size} in chunks of {name}",
                "dask's own cumsum",
                own_seconds and own_seconds / seconds,
                notes=f"{seconds:.1f} s, a worker has {memory} MiB; {notes}",
                seconds=seconds,
                own_seconds=own_seconds,
                worker_mib=memory,
            )
        )
    rows.append(
        Row(
            "dask's own sums with the bits of numpy.cumsum",
            "all of them",
            agree / len(CHUNKINGS),
            notes=f"{agree} of {len(CHUNKINGS)}; {len(seen)} different results",
        )
    )
    return rows


def section(settings):
    try:
        import distributed
        import zarr  # noqa: F401
    except ImportError as error:
        return [failed("tally.dask", "", error)]
    size = settings.bytes[0] if settings.bytes else (256 << 20 if settings.quick else 8 << 30)
    columns = size // 4 // ROWS
    settings.out.mkdir(parents=True, exist_ok=True)
    if shutil.disk_usage(settings.out).free < 2 * size:
        return [failed("tally.dask", "", f"less than {2 * size >> 30} GiB of the disk are free")]
    with contextlib.ExitStack() as stack:
        name = stack.enter_context(tempfile.TemporaryDirectory(prefix="dask-", dir=settings.out))
        folder = pathlib.Path(name)
        settings.note("making the input")
        numpys = make_input(folder, columns)
        pairs = stack.enter_context(Pairs(3, MEMORY))
        cluster = stack.enter_context(
            distributed.LocalCluster(
                n_workers=0, host=pairs.scheduler_host, dashboard_address=":0", silence_logs=50
            )
        )
        pairs.start(cluster.scheduler_address, folder)
        client = stack.enter_context(distributed.Client(cluster))
        client.wait_for_workers(3, timeout=60)
        # the import is not part of any measured time
        client.run(exec, "import dask.array, tally.dask, zarr")
        return rows_of(Runs(settings, folder, pairs, client, columns, numpys))
