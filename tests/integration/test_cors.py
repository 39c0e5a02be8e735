"""--cors-origins: the answers that a browser gets for pages of other origins, on the wire and in
Chromium."""

import contextlib
import hashlib
import http.server
import threading

import pytest
from selenium.webdriver.common.by import By

from support import browser as chromium
from support import calls
from support.calls import BODY, PATH, SUMS
from support.http import post_bytes
from support.pages import programs_of
from support.waiting import until

LISTED = "https://app.example"
ORIGIN = {"Origin": LISTED}
MIB = 1 << 20
REQUEST_FIELDS = {  # header fields of openapi.json, and those of bodies, tokens, formats and traces
    *("authorization", "content-type", "content-encoding", "accept", "if-none-match"),
    *("inference-header-content-length", "tally-carry-length", "tally-offsets-length"),
    *("x-request-id", "x-request-timeout-ms", "x-request-priority", "traceparent", "tracestate"),
}


def preflight(client, path, method="POST", origin=LISTED, **headers):
    asked = {"Origin": origin, "Access-Control-Request-Method": method, **headers}
    return client.request("OPTIONS", path, headers=asked)


def words(answer, name):
    return {word.strip().lower() for word in answer.headers[name].split(",")}


def origin_fields(answer):
    return {k.lower() for k in answer.headers if k.lower().startswith("access-control-")}


def expect_readable(answer, status):
    """Check that a page of the listed origin may read the answer, and its headers that describe
    the sums."""
    assert answer.status == status, answer
    assert answer.headers["Access-Control-Allow-Origin"] == LISTED
    assert "Origin" in answer.headers.get_all("Vary")
    exposed = words(answer, "Access-Control-Expose-Headers")
    safe = {"connection", "content-type", "content-length", "date", "server", "vary"}
    hidden = {name.lower() for name in answer.headers} - exposed - safe - origin_fields(answer)
    assert not hidden, hidden


@pytest.fixture(scope="module")
def tokens(tmp_path_factory):
    path = tmp_path_factory.mktemp("tokens") / "tokens"
    path.write_text(f"page:{hashlib.sha256(b'sesame').hexdigest()}\n")
    return path


@pytest.fixture
def open_server(start_server):
    return start_server("--cors-origins", f"http://localhost:5173,{LISTED}")


@pytest.fixture
def closed_server(start_server, tokens):
    return start_server("--cors-origins", LISTED, "--token-file", str(tokens))


def test_a_preflight_is_answered_without_a_token_on_every_route(closed_server):
    client = closed_server.client()
    paths = client.get("/openapi.json", {"Authorization": "Bearer sesame"}).json()["paths"]
    assert len(paths) > 30
    for path, operations in paths.items():
        methods = {method.upper() for method in operations} & {"GET", "POST"}
        answer = preflight(client, path.replace("{", "").replace("}", ""), min(methods))
        assert (answer.status, answer.body) == (204, b""), path
        assert "Content-Type" not in answer.headers and "Content-Length" not in answer.headers
        assert answer.headers["Access-Control-Allow-Origin"] == LISTED
        assert answer.headers["Vary"] == "Origin"
        allowed = words(answer, "Access-Control-Allow-Methods")
        assert allowed == {m.lower() for m in methods | ({"HEAD"} if "GET" in methods else set())}
        assert words(answer, "Access-Control-Allow-Headers") == REQUEST_FIELDS
        assert int(answer.headers["Access-Control-Max-Age"]) > 0
    client.close()
    until(lambda: "method=OPTIONS path=/v1/cumsum status=204" in closed_server.log)


def test_every_field_that_the_contract_knows_may_be_sent(client):
    document = client.get("/openapi.json").json()
    known = {
        parameter["name"].lower()
        for parameter in document["components"]["parameters"].values()
        if parameter["in"] == "header"
    }
    assert known and known <= REQUEST_FIELDS


def test_a_page_can_read_the_refusal_of_a_preflight_for_an_unknown_path(open_server, closed_server):
    client = open_server.client()
    expect_readable(preflight(client, "/v1/nothing"), 404)
    client.close()
    client = closed_server.client()
    expect_readable(preflight(client, "/v1/nothing"), 401)
    client.close()


def test_an_options_request_without_preflight_headers_is_an_ordinary_method(open_server):
    client = open_server.client()
    expect_readable(client.request("OPTIONS", "/v1/cumsum", headers=ORIGIN), 405)
    asked = {"Access-Control-Request-Method": "POST"}
    assert client.request("OPTIONS", "/v1/cumsum", headers=asked).status == 405
    client.close()


def test_sums_and_pages_say_who_may_read_them(open_server):
    client = open_server.client()
    for origin in (LISTED, "http://localhost:5173"):
        answer = client.post(PATH, BODY, calls.RAW, {"Origin": origin})
        assert answer.body == SUMS and answer.headers["Access-Control-Allow-Origin"] == origin
    expect_readable(client.post(PATH, BODY, calls.RAW, ORIGIN), 200)
    expect_readable(client.post_json("/v1/cumsum", {"data": [1], "part": "first"}, ORIGIN), 200)
    for path in ("/", "/readyz", "/v1/devices", "/openapi.json"):
        expect_readable(client.get(path, ORIGIN), 200)
    packed = client.post(PATH, BODY, calls.RAW, {**ORIGIN, "Accept-Encoding": "gzip"})
    assert packed.headers["Access-Control-Allow-Origin"] == LISTED
    client.close()


@pytest.mark.parametrize(
    "origin",
    [
        *("http://app.example", "https://app.example:8443", "https://app.example.evil", "null", ""),
        *(
            "https://app.exampl",
            "https://app.example/",
            "HTTPS://app.example",
            "https://x.app.example",
        ),
    ],
)
def test_another_origin_is_answered_as_ever_and_told_nothing(open_server, origin):
    client = open_server.client()
    answer = client.post(PATH, BODY, calls.RAW, {"Origin": origin})
    assert answer.body == SUMS and not origin_fields(answer) and answer.headers["Vary"] == "Origin"
    answer = preflight(client, "/v1/cumsum", origin=origin)
    assert answer.status == 405 and answer.headers["Allow"] == "POST" and not origin_fields(answer)
    client.close()


def test_without_the_setting_nobody_is_told_anything(client):
    answer = client.post(PATH, BODY, calls.RAW, ORIGIN)
    assert answer.body == SUMS and not origin_fields(answer) and "Vary" not in answer.headers
    answer = preflight(client, "/v1/cumsum")
    assert answer.status == 405 and not origin_fields(answer)


def test_a_star_stands_for_every_page(start_server):
    client = start_server("--cors-origins", "*").client()
    for origin in (LISTED, "null", "http://localhost:1"):
        for answer in (
            preflight(client, "/v1/cumsum", origin=origin),
            client.post(PATH, BODY, calls.RAW, {"Origin": origin}),
        ):
            assert answer.status in (200, 204) and "Vary" not in answer.headers
            assert answer.headers["Access-Control-Allow-Origin"] == "*"
    assert not origin_fields(client.post(PATH, BODY, calls.RAW))
    client.close()


def test_a_page_may_read_why_it_was_refused(open_server):
    client = open_server.client()
    for status, path, type_ in [
        (400, "/v1/cumsum?dtype=int32&shape=4&axes=1", calls.RAW),
        (404, "/v1/cumprod", calls.RAW),
        (405, "/metrics", calls.RAW),
        (415, PATH, "text/plain"),
    ]:
        expect_readable(client.post(path, BODY, type_, ORIGIN), status)
    expect_readable(
        client.request("POST", PATH, BODY, {**ORIGIN, "X-Request-Timeout-Ms": "x"}), 400
    )
    client.close()


def test_a_page_may_read_what_is_wrong_with_its_token(closed_server):
    client = closed_server.client()
    with_token = {**ORIGIN, "Authorization": "Bearer sesame"}
    expect_readable(client.post(PATH, BODY, calls.RAW, with_token), 200)
    expect_readable(client.post(PATH, BODY, calls.RAW, ORIGIN), 401)
    expect_readable(client.get("/metrics", with_token), 403)
    wrong = [{**ORIGIN, "Authorization": f"Bearer wrong{i}"} for i in range(21)]
    statuses = [client.post(PATH, BODY, calls.RAW, each).status for each in wrong[:20]]
    assert set(statuses) == {401, 429}
    expect_readable(client.post(PATH, BODY, calls.RAW, wrong[20]), 429)
    assert preflight(client, "/v1/cumsum").status == 204
    client.close()


def test_a_page_may_read_a_refusal_that_is_written_before_the_body(start_server):
    flags = ["--max-body-bytes", "4MiB", "--queue-depth", "1", "--batch-delay-us", "1000000"]
    server = start_server("--cors-origins", LISTED, *flags)
    headers = [("Content-Type", calls.RAW), ("Origin", LISTED)]

    def refused(size):
        with server.wire() as wire:
            body = bytes(size)
            head = post_bytes(f"/v1/cumsum?dtype=int8&shape={size}", body, headers)[: -len(body)]
            return wire.send(head).answer()

    answer = refused(5 * MIB)
    expect_readable(answer, 413)
    assert answer.headers["Connection"] == "close"
    with server.wire() as waiting:
        waiting.send(post_bytes(PATH, BODY, headers))
        until(lambda: server.metric("tally_queue_requests") == 1, 20)
        answer = refused(2 * MIB)
        expect_readable(answer, 503)
        assert "Retry-After" in answer.headers and answer.headers["Connection"] == "close"
        assert waiting.answer().body == SUMS


@pytest.mark.parametrize(
    "entry, why",
    [
        ("null", "every sandboxed page"),
        ("https://app.example/", "without a slash"),
        ("https://app.example/page", "without a slash"),
        ("https://App.example", "lower case"),
        ("https://*.example", "stands for all origins"),
        ("app.example", "scheme is missing"),
        ("http://", "host is missing"),
        ("http://a b", "no host has such a name"),
        ("http://user@a", "no host has such a name"),
        ("http://[::1", "host is missing"),
        ("http://a:0", "a port from 1 to 65535"),
        ("http://a:65536", "a port from 1 to 65535"),
        ("http://a:8x", "a port from 1 to 65535"),
        ("http://a:80", "leave out port 80"),
        ("https://[::1]:443", "leave out port 80"),
        (f"http://{'a' * 300}", "so long a name"),
        (f"{LISTED},*", "stands for all origins"),
    ],
)
def test_an_origin_that_no_browser_sends_is_refused_at_the_start(start_server, entry, why):
    server = start_server("--cors-origins", entry, wait=False)
    assert server.wait() == 2
    assert "--cors-origins" in server.log and why in server.log
    assert "expected scheme://host[:port], such as https://app.example" in server.log


@pytest.mark.parametrize("entry", ["http://[::1]:8080", "capacitor://localhost", "http://a:8443"])
def test_an_origin_of_any_scheme_host_and_port_can_be_listed(start_server, entry):
    client = start_server("--cors-origins", entry).client()
    answer = client.post(PATH, BODY, calls.RAW, {"Origin": entry})
    assert answer.headers["Access-Control-Allow-Origin"] == entry
    client.close()


# In a browser ---------------------------------------------------------------------------------

CALL = """
const [url, headers, done] = arguments;
fetch(url, { method: "POST", headers, body: Int32Array.of(1, 2, 3, 4) })
  .then(async (answer) => done({
    status: answer.status,
    shape: answer.headers.get("Tally-Shape"),
    id: answer.headers.get("X-Request-Id"),
    sums: answer.ok ? [...new Int32Array(await answer.arrayBuffer())] : (await answer.json()).code,
  }))
  .catch((error) => done(error.name));
"""


class Site(http.server.BaseHTTPRequestHandler):
    """A server that delivers one page."""

    html = ""

    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(self.html.encode())

    def log_message(self, *_):
        pass


class OtherOrigin:
    """A page in Chromium, delivered by another server."""

    def __init__(self):
        handler = type("OneSite", (Site,), {})
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.origin = f"http://127.0.0.1:{self.server.server_address[1]}"
        self.driver = chromium.open_browser()

    def open(self, html):
        self.server.RequestHandlerClass.html = html
        self.driver.get(self.origin)

    def call(self, server, path=PATH, **headers):
        """The result of fetch()."""
        url = f"http://127.0.0.1:{server.port}{path}"
        headers = {"Content-Type": calls.RAW, **headers}
        return self.driver.execute_async_script(CALL, url, headers)

    def close(self):
        self.driver.quit()
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def page():
    if not chromium.found():
        pytest.skip("this distribution has no chromium and chromedriver")
    with contextlib.closing(OtherOrigin()) as page:
        yield page


def test_in_chromium_a_page_of_a_listed_origin_gets_sums_and_another_does_not(
    page, start_server, tokens
):
    server = start_server("--cors-origins", page.origin, "--token-file", str(tokens))
    elsewhere = start_server("--cors-origins", LISTED, "--token-file", str(tokens))
    anybody = start_server("--cors-origins", "*")
    page.open("<!doctype html>")
    named = {"X-Request-Id": "from-a-page"}
    told = {**named, "Authorization": "Bearer sesame"}
    sums = {"status": 200, "shape": "4", "id": "from-a-page", "sums": [1, 3, 6, 10]}
    assert page.call(server, **told) == sums
    assert page.call(anybody, **named) == sums
    refused = page.call(server, "/v1/cumsum?dtype=int32&shape=5", **told)
    assert refused["status"] == 400 and refused["sums"] == "length_mismatch"
    assert page.call(server)["status"] == 401
    assert page.call(elsewhere, **told) == "TypeError"
    assert "method=POST" not in elsewhere.log  # the preflight failed, so no POST was sent

    # This program is the page in docs/clients/javascript.md.
    [program] = [p for p in programs_of("javascript") if p.language == "html"]
    page.open(program.text.replace("http://127.0.0.1:8000", f"http://127.0.0.1:{anybody.port}"))
    shown = until(lambda: page.driver.find_element(By.ID, "sums").get_property("textContent"), 60)
    assert shown + "\n" == program.output
