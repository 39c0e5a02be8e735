#!/usr/bin/env python3
"""What the first request of a kind costs, before its kernel is built or loaded.

    make all && tests/bench/first_request.py

A service on an empty kernel cache, then one on the cache that it leaves: seconds and resident
memory at ready, then for each tensor the first request, how long its kernel took to be there
(to_build of /v1/devices), and three requests after that."""

import tempfile
import time
import urllib.request

import load

TENSORS = [
    ("float32", "16384,1024", 1, 4 << 24),
    ("float32", "1048576,16", 1, 4 << 24),
    ("float32", "1048576,3", 0, 12 << 20),
    ("float64", "4096,1024", 0, 8 << 22),
]


def send(base, dtype, shape, axis, size):
    """Milliseconds of one raw request."""
    url = f"{base}/v1/cumsum?dtype={dtype}&shape={shape}&axis={axis}"
    kind = {"Content-Type": "application/octet-stream"}
    began = time.perf_counter()
    with urllib.request.urlopen(urllib.request.Request(url, bytes(size), kind)) as answer:
        assert len(answer.read()) == size
    return (time.perf_counter() - began) * 1e3


def main():
    with tempfile.TemporaryDirectory() as cache:
        for name in ("empty cache", "kept cache"):
            with load.tallyd("--kernel-cache", cache) as (child, base):
                rss = load.rss_bytes(child.pid) / 1e6
                print(f"{name}: ready after {child.ready_seconds:.2f} s with {rss:.0f} MB")
                load.wait_built(base)  # the generic kernels of the other types
                for tensor in TENSORS:
                    first = send(base, *tensor)
                    began = time.perf_counter()
                    load.wait_built(base)
                    built = time.perf_counter() - began
                    after = ", ".join(f"{send(base, *tensor):.0f}" for _ in range(3))
                    print(
                        f"  {tensor[0]} {tensor[1]}: {first:.0f} ms, kernel after {built:.2f} s, {after} ms"
                    )


if __name__ == "__main__":
    main()
