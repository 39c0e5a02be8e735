"""Wait for conditions, such as the state of a server after the end of an answer."""

import contextlib
import os
import time


def until(condition, seconds=120, every=0.01, what="it never came to that"):
    """The first true value of condition(), or an AssertionError after the time. The default is
    long, since a busy machine is ten times as slow."""
    deadline = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < deadline, what
        time.sleep(every)


def pipe_with_reader(path):
    """The unbuffered writing end of a named pipe, once another process opens it for reading."""

    def writing_end():
        with contextlib.suppress(OSError):  # no reader yet
            return os.open(path, os.O_WRONLY | os.O_NONBLOCK)

    return open(until(writing_end), "wb", buffering=0)
