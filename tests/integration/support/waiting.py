"""Wait for conditions, such as the state of a server after the end of an answer."""

import contextlib
import os
import time


def until(condition, seconds=120, every=0.01, what="it never came to that"):
    """Call condition() repeatedly until its value is true, and return the value. Raises
    AssertionError after `seconds`: the default is long, since a busy machine can be ten times
    slower."""
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
