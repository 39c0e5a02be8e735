"""Waiting for what a server does in its own time, such as what follows the end of an answer."""

import contextlib
import os
import time


def until(condition, seconds=120, every=0.01, what="it never came to that"):
    """The first true value of condition(); an AssertionError where none comes in time, which is
    long: a machine that does other work as well is ten times as slow."""
    deadline = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < deadline, what
        time.sleep(every)


def pipe_with_reader(path):
    """The writing end, unbuffered, of a named pipe that somebody opens for reading."""

    def writing_end():
        with contextlib.suppress(OSError):  # nobody has yet
            return os.open(path, os.O_WRONLY | os.O_NONBLOCK)

    return open(until(writing_end), "wb", buffering=0)
