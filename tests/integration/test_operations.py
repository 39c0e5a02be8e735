"""The view of operators and proxies: health, metrics, devices, ids, timings."""

import json
import re
import time

import numpy as np
import pytest
from openapi_spec_validator import validate
from prometheus_client.parser import text_string_to_metric_families

from support import calls, dtypes
from support.http import Client
from support.tallyd import POCL, free_port
from support.waiting import until

FLOAT32 = dtypes.BY_NAME["float32"]


def metrics(client):
    """{(name, labels as sorted tuple): value} after a strict parse of the whole page."""
    answer = client.get("/metrics")
    assert answer.status == 200
    assert answer.headers["Content-Type"].startswith("text/plain")
    values = {}
    for family in text_string_to_metric_families(answer.body.decode()):
        for sample in family.samples:
            key = (sample.name, tuple(sorted(sample.labels.items())))
            assert key not in values, f"{key} twice"
            values[key] = sample.value
    return values


def total(values, name):
    return sum(value for (sample, _), value in values.items() if sample == name)


@pytest.mark.parametrize("path", ["/livez", "/readyz", "/v2/health/live", "/v2/health/ready"])
def test_a_running_server_is_live_and_ready(client, path):
    assert client.get(path).status == 200


def test_version_names_the_program(client):
    answer = client.get("/version")
    assert answer.headers["Content-Type"] == "application/json"
    assert re.fullmatch(r"\d+\.\d+\.\d+", answer.json()["version"])


def test_devices_are_listed_with_their_state(client):
    calls.post_raw(client, FLOAT32, np.ones(4, np.float32))
    document = client.get("/v1/devices").json()
    devices = document["devices"]
    assert len(devices) >= 1
    for device in devices:
        for key in ("name", "platform", "type", "state", "lookback"):
            assert isinstance(device[key], str) and device[key], device
        for key in ("requests", "batches", "elements", "bytes", "errors", "running"):
            assert isinstance(device[key], int) and device[key] >= 0, device
        assert device["kernels_built"] > 0 and device["kernels_to_build"] == 0, device
        assert device["declined"] == 0 and "last_choice" not in device  # there is no other device
    assert document["queue_depth"] >= 0  # all devices share one queue
    assert sum(device["requests"] for device in devices) >= 1


def test_the_pace_of_a_device_is_measured_without_a_request(start_server):
    client = start_server().client()
    page = {}

    def measured():  # one worker measures, while the other one is ready
        page.update(client.get("/v1/devices").json()["devices"][0])
        return page["pace"]

    until(measured)
    assert page["requests"] == 0
    for elements in ("integers", "floats"):
        assert page["pace"][elements]["bytes_per_second"] > 1e6, page
        assert page["pace"][elements]["fixed_ns"] >= 0, page
    client.close()


def test_each_of_two_devices_shows_its_pace_and_why_it_took_a_request_or_did_not(start_server):
    server = start_server(*POCL, env={"POCL_DEVICES": "pthread pthread"})
    client = server.client()
    taken = re.compile(r"took 16 bytes of float32: [\d.e+-]+ ms here, [\d.e+-]+ ms on device (\d+)")
    left = re.compile(
        r"left 16 bytes of float32 to device (\d+): [\d.e+-]+ ms here, [\d.e+-]+ ms there"
    )

    def choices():
        """Each device's record of its last choice, or None."""
        calls.post_raw(client, FLOAT32, np.ones(4, np.float32))
        devices = client.get("/v1/devices").json()["devices"]
        numbers = [device["number"] for device in devices]
        for device, other in zip(devices, reversed(numbers), strict=True):
            choice = device.get("last_choice", "")
            found = taken.fullmatch(choice) or left.fullmatch(choice)
            assert not choice or int(found[1]) == other, choice
            assert device["declined"] == 0 or choice, device
        return devices

    def any_choice():
        return any("last_choice" in device for device in choices())

    until(any_choice, 60)  # a choice is recorded once both devices are ready
    values = metrics(client)
    for device in choices():
        labels = (("device", str(device["number"])), ("name", device["name"]))
        for elements, pace in device["pace"].items():
            key = (
                "tally_device_pace_bytes_per_second",
                tuple(sorted((*labels, ("elements", elements)))),
            )
            assert values[key] > 0 and pace["bytes_per_second"] > 0
        assert values["tally_device_declined_requests_total", labels] <= device["declined"]
    client.close()


def test_metrics_page_parses_and_has_help_for_everything(client):
    page = client.get("/metrics").body.decode()
    assert page.endswith("\n")
    families = list(text_string_to_metric_families(page))
    names = {family.name for family in families}
    assert any(name.startswith("tally_") for name in names)
    assert any(name.startswith("nv_inference_") for name in names)
    for family in families:
        assert family.documentation, family.name
        assert family.type != "unknown", family.name
        for sample in family.samples:
            assert re.fullmatch(r"[a-z_][a-z0-9_]*", sample.name), sample.name


@pytest.mark.parametrize(
    "name",
    [
        "nv_inference_request_success",
        "nv_inference_request_failure",
        "nv_inference_count",
        "nv_inference_exec_count",
        "nv_inference_request_duration_us",
        "nv_inference_queue_duration_us",
        "nv_inference_compute_infer_duration_us",
    ],
)
def test_tritons_metric_names_are_there(client, name):
    client.post_json("/v2/models/cumsum/infer", INFER)
    values = metrics(client)
    assert any(sample.startswith(name) for sample, _ in values), name


INFER = {"inputs": [{"name": "x", "shape": [3], "datatype": "FP32", "data": [1, 2, 3]}]}


def test_counters_count_requests_and_never_fall(client):
    before = metrics(client)
    for _ in range(10):
        assert calls.post_raw(client, FLOAT32, np.ones(4, np.float32)).status == 200
        calls.expect_error(client.post("/v1/cumsum", b"{", calls.JSON), 400)
    after = metrics(client)
    for (name, labels), value in before.items():
        if name.endswith("_total") or name.endswith("_count") or name.endswith("_bucket"):
            assert after[(name, labels)] >= value, name
    name = next(name for name, _ in after if re.fullmatch(r"tally_(http_)?requests(_total)?", name))
    assert total(after, name) - total(before, name) >= 20


def test_histograms_are_cumulative(client):
    calls.post_raw(client, FLOAT32, np.ones(4, np.float32))
    page = client.get("/metrics").body.decode()
    histograms = 0
    for family in text_string_to_metric_families(page):
        if family.type != "histogram":
            continue
        series = {}
        for sample in family.samples:
            labels = tuple(sorted((k, v) for k, v in sample.labels.items() if k != "le"))
            if sample.name.endswith("_bucket"):
                series.setdefault(labels, []).append((float(sample.labels["le"]), sample.value))
        for buckets in series.values():
            histograms += 1
            assert buckets == sorted(buckets) and buckets[-1][0] == float("inf")
            assert [count for _, count in buckets] == sorted(count for _, count in buckets)
    assert histograms >= 1


def test_openapi_document_is_valid_and_complete(client):
    answer = client.get("/openapi.json")
    assert answer.headers["Content-Type"] == "application/json"
    document = answer.json()
    assert document["openapi"].startswith("3.1")
    validate(document)
    for path in (
        "/v1/cumsum",
        "/v1/directml/cumulative_summation",
        "/v1/openvino/cumsum-3",
        "/livez",
        "/readyz",
        "/metrics",
        "/v1/devices",
        "/openapi.json",
        "/version",
        "/v2",
    ):
        assert path in document["paths"], path
    assert any("infer" in path for path in document["paths"])


@pytest.mark.parametrize(
    ("accepted", "status", "coding"),
    [
        ("gzip;q=0", 200, None),
        ("gzip;q=0, deflate", 200, "deflate"),
        ("gzip, *;q=0", 200, "gzip"),
        ("identity;q=0, gzip, deflate", 200, "gzip"),
        ("*;q=0, identity", 200, None),
        ("identity;q=0", 406, None),
        ("br, *;q=0", 406, None),
    ],
)
def test_no_answer_has_a_coding_that_the_client_refused(client, accepted, status, coding):
    answer = client.post("/v1/cumsum", b'{"data":[1,2]}', calls.JSON, {"Accept-Encoding": accepted})
    assert answer.headers.get("Content-Encoding") == coding
    if status == 406:
        calls.expect_error(answer, 406, "not_acceptable", field="Accept-Encoding")
    else:
        assert answer.status == 200


# The log ------------------------------------------------------------------------------------

# The path as received, in the text log, and as a JSON string in the log.
PATHS = [
    (b"/v1/%63umsum?dtype=int8", "/v1/%63umsum", "/v1/%63umsum"),
    (b"/v2/models/cum%73um?x", "/v2/models/cum%73um", "/v2/models/cum%73um"),
    (b"http://host/version?x", "/version", "/version"),
    (b"/a%2fb", "/a%2fb", "/a%2fb"),
    (b"/%e2%80%aegpj.exe%0a", "/%e2%80%aegpj.exe%0a", "/%e2%80%aegpj.exe%0a"),
    (b"/\xe2\x80\xaegpj", r'"/\xe2\x80\xaegpj"', r"/\xe2\x80\xaegpj"),
    (b"/\xff", r'"/\xff"', r"/\xff"),
    (rb"/\xff", r'"/\\xff"', r"/\x5cxff"),
    (b"/\x1b[2J", r'"/\x1b[2J"', "/\x1b[2J"),
    ("/\N{SNOWMAN}".encode(), '"/\N{SNOWMAN}"', "/\N{SNOWMAN}"),
]


@pytest.mark.parametrize("form", ["text", "json"])
def test_the_log_has_each_path_as_it_came_and_no_two_alike(start_server, form):
    server = start_server("--log-format", form)
    with server.wire() as wire:
        for at, (target, _, _) in enumerate(PATHS):
            head = b"GET %s HTTP/1.1\r\nHost: x\r\nX-Request-Id: path-%d\r\n\r\n" % (target, at)
            wire.send(head).answer()
    until(lambda: f"path-{len(PATHS) - 1}" in server.log)
    lines = [line for line in server.log.splitlines() if "path-" in line]
    if form == "text":
        told = [re.search(r' path=("(?:[^"\\]|\\.)*"|\S+) ', line)[1] for line in lines]
        assert told == [text for _, text, _ in PATHS]
    else:
        assert [json.loads(line)["path"] for line in lines] == [text for _, _, text in PATHS]


def test_a_client_that_floods_the_log_hides_no_line_of_another(start_server):
    """Lines beyond the client's share are left out and counted at their place in the log."""
    server = start_server()
    began = time.monotonic()
    loud_path, rounds, each = "/" + "x" * 1000, 40, 100
    with server.wire() as loud, server.wire(source="127.0.0.2") as quiet:
        for number in range(rounds):
            loud.send(b"GET %s HTTP/1.1\r\nHost: x\r\n\r\n" % loud_path.encode() * each)
            for _ in range(each):
                loud.answer()
            head = b"GET /version HTTP/1.1\r\nHost: x\r\nX-Request-Id: quiet-%d\r\n\r\n" % number
            quiet.send(head).answer()
        seconds = time.monotonic() - began
        told = r" warn log lines left out lines=(\d+) client=127\.0\.0\.1\n"

        def left_out():
            return sum(map(int, re.findall(told, server.log)))

        def loud_lines():
            return [line for line in server.log.splitlines() if loud_path in line]

        until(lambda: len(loud_lines()) + left_out() == rounds * each)
        assert quiet.metric("tally_log_dropped_total") == left_out() > 0
    assert sum(map(len, loud_lines())) < (seconds + 2) * (256 << 10)
    assert [f" id=quiet-{number} " in server.log for number in range(rounds)] == [True] * rounds


PROBES = ["/livez", "/readyz", "/v2/health/live", "/v2/health/ready"]


@pytest.mark.parametrize("base", ["", "/sums"])
def test_probes_are_no_lines_of_the_log_unless_its_level_is_debug(start_server, base):
    for level, told in (("info", []), ("debug", [*PROBES, *PROBES])):
        port = free_port()
        listen = ("--http-loops", "1", "--probe-listen", f"127.0.0.1:{port}", "--base-path", base)
        server = start_server(*listen, "--log-level", level)
        client, begin = server.client(), server.log.count("\n")
        for path in PROBES:
            assert client.get(base + path, {"X-Request-Id": "probe"}).status == 200
            assert client.request("HEAD", path, headers={"X-Request-Id": "probe"}).status == 200
        for path in ("/livez", "/readyz"):
            Client(port).get(path, {"X-Request-Id": "apart"})
        # A refused probe is logged: it may be misconfigured.
        assert client.request("PUT", "/readyz").status == 405
        assert Client(port).get("/metrics").status == 404
        assert client.get("/version").status == 200
        until(lambda server=server: server.log.count(" info request ") == 3)
        lines = server.log.splitlines()[begin:]
        probes = [line for line in lines if " debug request id=probe " in line]
        assert len(probes) == sum(" id=probe " in line for line in lines)
        paths = [re.search(r" path=(\S+) ", line)[1] for line in probes]
        assert sorted(path.removeprefix(base) for path in paths) == sorted(told)
        assert sum(" id=apart " in line for line in lines) == (2 if told else 0)


# Ids and timings ----------------------------------------------------------------------------


def test_a_sane_request_id_comes_back(client):
    for sane in ("abc-123", "a" * 64, "0af7651916cd43dd8448eb211c80319c", "x.y_z:1/2"):
        answer = client.get("/livez", {"X-Request-Id": sane})
        assert answer.headers["X-Request-Id"] == sane
        answer = client.post("/v1/cumsum", b"{", calls.JSON, {"X-Request-Id": sane})
        assert answer.headers["X-Request-Id"] == sane


def test_blanks_around_a_request_id_are_no_part_of_it(server):
    with server.wire() as wire:
        wire.send(b"GET /livez HTTP/1.1\r\nHost: x\r\nX-Request-Id: \t abc-123 \t\r\n\r\n")
        assert wire.answer().headers["X-Request-Id"] == "abc-123"


@pytest.mark.parametrize("bad", ["a" * 1000, 'a"b\x01', "caf\xe9", "", "a\tb"])
def test_an_insane_request_id_is_replaced(server, bad):
    with server.wire() as wire:
        wire.send(
            b"GET /livez HTTP/1.1\r\nHost: x\r\nX-Request-Id: "
            + bad.encode("latin-1")
            + b"\r\n\r\n"
        )
        answer = wire.answer()
        assert answer.status in (200, 400)
        assert answer.headers["X-Request-Id"] and answer.headers["X-Request-Id"] != bad


def test_every_answer_has_an_id_of_its_own(client):
    answers = [
        client.get("/livez"),
        client.get("/nowhere"),
        client.request("PUT", "/v1/cumsum"),
        client.post("/v1/cumsum", b"{", calls.JSON),
        client.post("/v1/cumsum", b"", "text/plain"),
        client.post("/v1/cumsum", b'{"data":[1]}', calls.JSON),
        client.get("/metrics"),
    ]
    ids = [answer.headers["X-Request-Id"] for answer in answers]
    assert all(ids) and len(set(ids)) == len(ids)


@pytest.mark.parametrize("form", ["json", "raw", "npy"])
def test_server_timing_names_queue_compute_and_total(client, form):
    stored = np.ones(1000, np.float32)
    key = ("tally_stage_seconds_sum", (("stage", "compute"),))
    computed = metrics(client)[key]
    if form == "json":
        answer = calls.post_json(client, FLOAT32, stored)
    elif form == "raw":
        answer = calls.post_raw(client, FLOAT32, stored)
    else:
        answer = calls.post_npy(client, stored)
    timings = {
        name: float(duration)
        for name, duration in re.findall(r"(\w+);dur=([0-9.]+)", answer.headers["Server-Timing"])
    }
    assert {"queue", "compute", "total"} <= set(timings)
    assert 0 <= timings["queue"] <= timings["total"] and 0 < timings["total"] < 60000
    assert timings["compute"] <= timings["total"]
    took = until(lambda: metrics(client)[key] - computed, 20) * 1000
    assert timings["compute"] == pytest.approx(took, abs=0.0011)


def test_answers_name_their_length_and_never_chunk(client):
    answer = calls.post_raw(client, FLOAT32, np.ones(100000, np.float32))
    assert answer.headers["Content-Length"] == "400000"
    assert "Transfer-Encoding" not in answer.headers


def test_compressed_answers_only_on_request_and_correct(client):
    """The server may send an unencoded answer or one that decodes correctly."""
    import gzip
    import zlib

    decode = {"gzip": gzip.decompress, "deflate": zlib.decompress, None: bytes, "identity": bytes}
    for coding in ("gzip", "deflate", "gzip, deflate", "br", "*"):
        body = json.dumps({"data": list(range(2000))}).encode()
        answer = client.post("/v1/cumsum", body, calls.JSON, {"Accept-Encoding": coding})
        plain = decode[answer.headers.get("Content-Encoding")](answer.body)
        assert json.loads(plain)["data"][-1] == 1999000
        if "Content-Encoding" in answer.headers:
            assert answer.headers["Vary"] == "Accept-Encoding"  # caches need this header field
