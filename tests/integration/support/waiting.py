"""Waiting for what a server does in its own time, such as what follows the end of an answer."""

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
