"""The choice of a replica by tally.dask, and its behaviour when a replica is gone."""

import numpy as np
import pytest
import tally
from lying_server import INPUT, SUMS, LyingServer, Told, error, tensor

X = np.array(INPUT, np.float32)


@pytest.fixture(autouse=True)
def imported():
    """Import here and not at the top of the file, since every test process imports all test
    files."""
    global replicas, Replicas
    from tally.dask import replicas
    from tally.dask.replicas import Replicas


def sums(among):
    return among.ask(lambda client: client.cumsum(X, 0)).tolist()


@pytest.fixture
def short(monkeypatch, imported):
    monkeypatch.setattr(replicas, "REST_FIRST", 0.01)


GONE = {
    "busy": lambda seen: error(503, "Retry-After: 1\r\n"),
    "one client over its share": lambda seen: error(429),
    "closed": lambda seen: Told(b"", close=True),
    "cut": lambda seen: Told(tensor().data, cut=90),
}


@pytest.mark.parametrize("how", GONE)
def test_the_work_of_one_that_fails_goes_to_the_next(how):
    with LyingServer(GONE[how]) as bad, LyingServer(lambda seen: tensor()) as good:
        for own in (None, bad.url):
            among = Replicas((bad.url, good.url), own, ())
            assert [sums(among) for _ in range(4)] == [SUMS] * 4
        assert good.requests == 8 and 0 < bad.requests < 8


def test_the_one_beside_the_worker_goes_first_and_others_take_turns():
    with (
        LyingServer(lambda seen: tensor()) as one,
        LyingServer(lambda seen: tensor()) as two,
    ):
        among = Replicas((one.url, two.url), two.url, ())
        assert [sums(among) for _ in range(4)] == [SUMS] * 4
        assert (one.requests, two.requests) == (0, 4)
        among = Replicas((one.url, two.url), "http://127.0.0.1:1", ())
        assert [sums(among) for _ in range(4)] == [SUMS] * 4
        assert (one.requests, two.requests) == (2, 6)


def test_one_that_comes_back_is_asked_again(short):
    """A service manager restarts the replica, and no other replica is available meanwhile."""
    with LyingServer(lambda seen: tensor() if seen.number > 4 else error(503)) as server:
        assert sums(Replicas((server.url,), None, ())) == SUMS
        assert server.requests == 6


def test_where_all_are_gone_the_last_error_is_raised(short, monkeypatch):
    monkeypatch.setattr(replicas, "PATIENCE", 0.05)
    with LyingServer(lambda seen: error(503)) as server:
        among = Replicas((server.url, "http://127.0.0.1:1"), None, ())
        with pytest.raises((tally.Busy, tally.ConnectFailed), match="none of 2 replicas did it"):
            sums(among)
        with pytest.raises(tally.Busy, match="the queue is full"):
            sums(Replicas((server.url,), None, ()))


def test_what_would_fail_elsewhere_too_is_raised_at_once():
    refusal = error(400, body='{"error":"no such axis","code":"invalid_axis","field":"axis"}')
    with LyingServer(lambda seen: refusal) as one, LyingServer(lambda seen: refusal) as two:
        with pytest.raises(tally.Rejected, match="no such axis"):
            sums(Replicas((one.url, two.url), None, ()))
        assert one.requests + two.requests == 1


def test_options_are_those_of_the_client():
    seen = []

    def script(request):
        seen.append(request.head)
        return tensor()

    with LyingServer(script) as server:
        assert sums(replicas.replicas((server.url,), (("token", "secret"),))) == SUMS
    assert "Authorization: Bearer secret" in seen[0]
