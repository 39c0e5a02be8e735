"""Traces: a caller's trace is continued or a new one begins, log and answer name it, a collector
gets its spans, and the service waits for no collector."""

import re
import socket
import time

import pytest

from support import calls
from support.calls import BODY, PATH
from support.collector import Collector, attributes
from support.http import post_bytes
from support.waiting import until

TRACE = "0af7651916cd43dd8448eb211c80319c"
CALLER = "b7ad6b7169203331"
SAMPLED = f"00-{TRACE}-{CALLER}-01"
UNSAMPLED = f"00-{TRACE}-{CALLER}-00"
FORM = re.compile(r"00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})")
STAGES = ["receive", "decode", "queue", "compute", "encode", "send"]


@pytest.fixture
def collector():
    collector = Collector()
    yield collector
    collector.close()


@pytest.fixture
def hole():
    """A collector that accepts connections and never answers."""
    listener = socket.create_server(("127.0.0.1", 0))
    yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    listener.close()


def parts(answer):
    return FORM.fullmatch(answer.headers["traceparent"]).groups()


def line_of(server, word):
    """The log line that contains this word, as a dict."""
    line = until(lambda: [line for line in server.log.splitlines() if word in line], 30)[0]
    return dict(pair.split("=", 1) for pair in line.split() if "=" in pair)


def test_a_callers_trace_is_answered_and_logged_with_a_span_of_our_own(server, client):
    headers = {"TraceParent": SAMPLED, "tracestate": "a=1", "X-Request-Id": "traced-request"}
    answer = client.post(PATH, BODY, calls.RAW, headers)
    trace, span, flags = parts(answer)
    assert (trace, flags) == (TRACE, "01")
    assert span != CALLER and int(span, 16) != 0
    assert answer.headers["tracestate"] == "a=1"
    line = line_of(server, "id=traced-request")
    assert (line["trace_id"], line["span_id"]) == (trace, span)
    assert parts(client.get("/livez", {"traceparent": UNSAMPLED}))[2] == "00"


def test_without_a_traceparent_and_a_collector_there_is_no_trace(server, client):
    answer = client.post(PATH, BODY, calls.RAW, {"tracestate": "a=1", "X-Request-Id": "untraced"})
    assert answer.status == 200
    assert "traceparent" not in answer.headers and "tracestate" not in answer.headers
    assert "trace_id" not in line_of(server, "id=untraced")


def test_a_bad_traceparent_means_a_new_trace_without_the_callers_state(client):
    for bad in (
        "",
        "x",
        SAMPLED.upper(),
        SAMPLED + "-",
        f"ff{SAMPLED[2:]}",
        SAMPLED.replace(CALLER, "0" * 16),
    ):
        answer = client.post(PATH, BODY, calls.RAW, {"traceparent": bad, "tracestate": "a=1"})
        assert answer.status == 200
        trace, span, _ = parts(answer)
        assert trace != TRACE and int(trace, 16) and int(span, 16)
        assert "tracestate" not in answer.headers


def test_two_traceparents_are_as_good_as_none_and_tracestates_are_joined(server):
    with server.wire() as wire:
        twice = [("traceparent", SAMPLED), ("traceparent", SAMPLED)]
        answer = wire.send(post_bytes(PATH, BODY, [("Content-Type", calls.RAW), *twice])).answer()
        assert answer.status == 200 and parts(answer)[0] != TRACE
        states = [("tracestate", "a=1"), ("traceparent", SAMPLED), ("tracestate", "b=2,c=3")]
        answer = wire.send(post_bytes(PATH, BODY, [("Content-Type", calls.RAW), *states])).answer()
        assert parts(answer)[0] == TRACE and answer.headers["tracestate"] == "a=1,b=2,c=3"
        # More members than are kept: a truncated tracestate would be invalid.
        many = [("traceparent", SAMPLED), *[("tracestate", f"a{at}=1") for at in range(9)]]
        answer = wire.send(post_bytes(PATH, BODY, [("Content-Type", calls.RAW), *many])).answer()
        assert parts(answer)[0] == TRACE and "tracestate" not in answer.headers


def test_errors_and_answers_in_the_middle_of_a_body_name_the_trace(server, client):
    assert parts(client.get("/nothing", {"traceparent": SAMPLED}))[0] == TRACE
    with server.wire() as wire:
        head = post_bytes("/nothing", b"", [("traceparent", SAMPLED), ("tracestate", "a=1")])
        answer = wire.send(
            head.replace(b"Content-Length: 0", b"Content-Length: 100000000")
        ).answer()
        assert answer.status == 404 and parts(answer)[0] == TRACE
        assert answer.headers["tracestate"] == "a=1"


def test_a_collector_gets_a_request_with_its_stages_and_attributes(start_server, collector):
    server = start_server("--otlp-endpoint", collector.url)
    headers = {"traceparent": SAMPLED, "tracestate": "a=1", "X-Request-Id": 'r-"1'}
    client = server.client()
    answer = client.post(PATH, BODY, calls.RAW, headers)
    spans = collector.trace(TRACE)
    assert collector.requests[0][0] == "/v1/traces"
    assert collector.requests[0][1]["Content-Type"] == "application/json"
    assert collector.resource["service.name"] == "tallyd"
    assert collector.resource["service.version"] in client.get("/version").body.decode()
    root = spans.pop("POST /v1/cumsum")
    assert (root.kind, root.span_id.hex(), root.parent_span_id.hex()) == (
        2,
        parts(answer)[1],
        CALLER,
    )
    assert (root.flags, root.trace_state, root.status.code) == (0x301, "a=1", 0)
    told = attributes(root)
    assert told["http.request.method"] == "POST" and told["url.scheme"] == "http"
    assert told["http.route"] == told["url.path"] == "/v1/cumsum"
    assert told["http.response.status_code"] == 200 and told["http.request.body.size"] == len(BODY)
    assert told["client.address"] == "127.0.0.1" and told["tally.outcome"] == "ok"
    assert told["tally.batch"] == 1 and "error.type" not in told
    assert list(spans) == STAGES
    at = root.start_time_unix_nano
    for span in spans.values():
        assert (span.kind, span.parent_span_id) == (1, root.span_id)
        assert at <= span.start_time_unix_nano <= span.end_time_unix_nano <= root.end_time_unix_nano
        at = span.end_time_unix_nano
    assert len({span.span_id for span in (root, *spans.values())}) == 7
    until(lambda: server.metric("tally_traces_sent_total") >= 1, 60)


def test_an_answer_from_500_on_is_an_error_and_one_from_400_on_is_the_callers(
    start_server, collector
):
    server = start_server("--otlp-endpoint", collector.url + "/", "--otlp-rate", "0")
    server.client().get("/v2/models/none", {"traceparent": SAMPLED})
    other = TRACE[::-1]
    headers = {"traceparent": SAMPLED.replace(TRACE, other)}
    path = "/v2/systemsharedmemory/region/r/register"
    assert server.client().post(path, b"{}", calls.JSON, headers).status == 501
    root = collector.trace(TRACE)["GET /v2/models/{}"]
    told = attributes(root)
    assert told["http.response.status_code"] == 404 and told["url.path"] == "/v2/models/none"
    assert told["tally.outcome"] == "not_found"
    assert root.status.code == 0 and "error.type" not in told
    (root,) = [span for span in collector.trace(other).values() if span.kind == 2]
    told = attributes(root)
    assert told["http.response.status_code"] == 501
    assert (root.status.code, told["error.type"]) == (2, told["tally.outcome"])
    assert "--allow-client-shm" in root.status.message


def test_log_and_spans_have_the_method_that_came(start_server, collector):
    server = start_server("--otlp-endpoint", collector.url)
    client = server.client()
    for number, method in enumerate(["HEAD", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "FROB"]):
        trace = f"{number + 1:032x}"
        client.request(
            method,
            "/version",
            headers={"traceparent": SAMPLED.replace(TRACE, trace), "X-Request-Id": method},
        )
        (root,) = [span for span in collector.trace(trace).values() if span.kind == 2]
        known = method != "FROB"
        assert attributes(root)["http.request.method"] == (method if known else "_OTHER")
        assert line_of(server, f"id={method} ").get("method") == (method if known else None)


def test_unsampled_requests_are_not_sent_and_own_traces_begin_at_the_rate(start_server, collector):
    server = start_server(
        "--otlp-endpoint", collector.url, "--otlp-rate", "1", "--log-format", "json"
    )
    at = time.monotonic()
    client = server.client()
    assert parts(client.get("/livez", {"traceparent": UNSAMPLED}))[2] == "00"
    began = [client.post(PATH, BODY, calls.RAW) for _ in range(20)]
    traced = [parts(answer) for answer in began if "traceparent" in answer.headers]
    # the first request is sampled, and then one per second
    assert 1 <= len(traced) <= 2 + time.monotonic() - at
    # without traceparent, only requests for tensors are sampled
    assert "traceparent" not in client.get("/livez").headers
    client.get("/livez", {"traceparent": SAMPLED})
    assert list(collector.trace(TRACE)) == ["GET /livez", "receive", "send"]
    server.stop()
    sent = {span.trace_id.hex() for span in collector.spans}
    assert {trace for trace, _, _ in traced} <= sent
    roots = [span for span in collector.spans if span.kind == 2]
    assert all(span.flags & 1 for span in roots)
    assert not any(span.parent_span_id for span in roots if span.trace_id.hex() != TRACE)


def test_a_path_of_the_endpoint_is_used_as_it_is_and_other_urls_are_refused(
    start_server, collector
):
    server = start_server("--otlp-endpoint", collector.url + "/api/otlp")
    server.client().get("/livez", {"traceparent": SAMPLED})
    assert collector.trace(TRACE) and collector.requests[0][0] == "/api/otlp"
    for bad in (
        "localhost:4317",
        "ftp://localhost",
        "http://",
        "http://host:99999",
        "https://host",
    ):
        server = start_server("--otlp-endpoint", bad, wait=False)
        assert server.wait() == 2
        assert "--otlp-endpoint" in server.log and bad in server.log


def test_no_request_waits_for_a_hanging_collector_and_dropped_spans_are_counted(start_server, hole):
    server = start_server("--otlp-endpoint", hole, "--log-requests=false")
    get = f"GET /livez HTTP/1.1\r\nHost: x\r\ntraceparent: {SAMPLED}\r\n\r\n".encode()
    with server.wire() as wire:
        # a batch begins at 512 spans and may grow to 1024; then 1024 more may wait
        for _ in range(21):
            wire.send(get * 100)
            assert all(wire.answer().status == 200 for _ in range(100))
    until(lambda: server.metric("tally_traces_dropped_total") > 0, 60)
    assert server.metric("tally_traces_sent_total") == 0
    server.stop(15)  # the hanging collector does not delay the exit


def test_a_collector_that_is_not_there_or_says_no_is_told_once(start_server):
    refusing = Collector(status=503)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        nobody = f"http://127.0.0.1:{listener.getsockname()[1]}"
    servers = [
        start_server("--otlp-endpoint", url, "--otlp-rate", "0") for url in (nobody, refusing.url)
    ]
    for batch in (1, 2):
        for server in servers:
            server.client().get("/livez", {"traceparent": SAMPLED})
        for server in servers:
            until(lambda: server.metric("tally_traces_dropped_total") == batch, 60)
    for server in servers:
        assert server.log.count("traces are dropped") == 1
        assert "traces are sent again" not in server.log
    refusing.status = 200
    servers[1].client().get("/livez", {"traceparent": SAMPLED})
    until(lambda: servers[1].metric("tally_traces_sent_total") == 1, 60)
    for server in servers:
        server.stop()
    assert servers[1].log.count("traces are sent again") == 1
    refusing.close()


def test_log_and_spans_name_the_client_behind_a_trusted_proxy(start_server, collector):
    server = start_server("--trusted-proxies", "127.0.0.1", "--otlp-endpoint", collector.url)
    behind = {"X-Forwarded-For": "198.51.100.9, 203.0.113.7", "X-Request-Id": "from-afar"}
    server.client().post(PATH, BODY, calls.RAW, {**behind, "traceparent": SAMPLED})
    assert line_of(server, "id=from-afar")["client"] == "203.0.113.7"
    told = attributes(collector.trace(TRACE)["POST /v1/cumsum"])
    assert told["client.address"] == "203.0.113.7"
    server = start_server("--otlp-endpoint", collector.url)
    server.client().get("/version", {**behind, "traceparent": SAMPLED.replace("0af", "fff")})
    assert line_of(server, "id=from-afar")["client"] == "127.0.0.1"
