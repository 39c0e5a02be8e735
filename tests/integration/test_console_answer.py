"""The answer of "/"; the console behind prefixes and proxies; `tally console`, which opens the
page."""

import base64
import hashlib
import http.server
import os
import re
import subprocess
import threading

import pytest

from support import console
from support.console import BIN
from support.waiting import until

driver, pages, page = console.driver, console.pages, console.page

BROWSER = {"Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}


def test_the_policy_allows_the_pages_own_style_and_script_alone(client):
    answer = client.get("/", BROWSER)
    assert answer.status == 200
    assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
    assert len(answer.body) <= 70300
    policy = dict(
        part.split(" ", 1) for part in answer.headers["Content-Security-Policy"].split("; ")
    )
    for tag in ("style", "script"):
        inside = re.findall(f"<{tag}>(.*?)</{tag}>".encode(), answer.body, re.S)
        assert len(inside) == 1
        digest = base64.b64encode(hashlib.sha256(inside[0]).digest()).decode()
        assert policy[f"{tag}-src"] == f"'sha256-{digest}'"
    assert policy["default-src"] == "'none'"
    assert policy["connect-src"] == "'self'"
    assert policy["frame-ancestors"] == "'none'"
    assert answer.headers["Set-Cookie"] is None


def test_a_browser_runs_no_other_script_in_it(page):
    page.js(
        """
        const script = document.createElement("script");
        script.textContent = "window.planted = true";
        document.body.append(script);"""
    )
    assert page.js("return window.planted === undefined")
    assert "Content Security Policy" in str(page.driver.get_log("browser"))


def test_a_browser_with_the_current_page_gets_304(client):
    tag = client.get("/", BROWSER).headers["ETag"]
    assert re.fullmatch(r'"[0-9a-f]{32}"', tag)
    for known in (tag, f'"other", W/{tag}', "*"):
        answer = client.get("/", {**BROWSER, "If-None-Match": known})
        assert (answer.status, answer.body, answer.headers["ETag"]) == (304, b"", tag)
    assert client.get("/", {**BROWSER, "If-None-Match": '"other"'}).status == 200


def test_a_304_has_the_length_of_the_page_that_it_leaves_out_or_none(client):
    """A cache stores the header fields of a 304, so a Content-Length in it must be that of the
    page (RFC 9110, 8.6)."""
    page = client.get("/", BROWSER)
    known = client.get("/", {**BROWSER, "If-None-Match": page.headers["ETag"]})
    length = known.headers.get("Content-Length", str(len(page.body)))
    assert (known.status, known.body, int(length)) == (304, b"", len(page.body))
    assert client.get("/livez").status == 200  # the same connection is still usable


def test_an_answer_without_its_body_counts_no_bytes(start_server):
    server, name, times = start_server(), "tally_sent_bytes_total", 20
    client = server.client()
    before = server.metric(name)
    for _ in range(times):
        head = client.request("HEAD", "/", headers=BROWSER)
        client.get("/", {**BROWSER, "If-None-Match": head.headers["ETag"]})
    client.close()
    # The pages of metrics that are read in between are shorter than ten times the console.
    assert server.metric(name) - before < 10 * int(head.headers["Content-Length"])


@pytest.mark.parametrize(
    "accept",
    [None, "*/*", "application/json", "text/html;q=0", "text/*", "text/html;q=0.1, */*"],
)
def test_a_client_that_does_not_prefer_html_gets_links(client, accept):
    answer = client.get("/", {} if accept is None else {"Accept": accept})
    assert answer.headers["Content-Type"] == "application/json"
    assert answer.headers["Vary"] == "Accept"
    assert answer.json()["links"]["cumsum"] == "/v1/cumsum"


def test_head_says_the_length_of_the_page(client):
    answer = client.request("HEAD", "/", headers=BROWSER)
    assert int(answer.headers["Content-Length"]) == len(client.get("/", BROWSER).body)


def test_the_console_can_be_taken_away(start_server):
    client = start_server("--console=false").client()
    answer = client.get("/", BROWSER)
    assert answer.headers["Content-Type"] == "application/json"
    assert answer.headers["Vary"] is None


@pytest.mark.parametrize("path", ["/sums/", "/sums"])
def test_it_works_below_a_prefix(pages, start_server, path):
    page = pages.open(start_server("--base-path", "/sums").port, path=path)
    page.example("openvino", 0)
    assert "/sums/v1/openvino" in page["snippet"].text
    until(lambda: page["state"].text == "ready")
    for view, shown in (("service", "#devices tbody tr"), ("api", "#routes details")):
        page.js("location.hash = arguments[0]", view)
        until(lambda: page.all(shown))


class Login(http.server.BaseHTTPRequestHandler):
    """A proxy with a login: by cookie, or by password."""

    server_behind = None
    cookie = "session=sesame"
    password = "Basic " + base64.b64encode(b"somebody:sesame").decode()
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.path == "/login":
            fields = {"Set-Cookie": f"{self.cookie}; HttpOnly", "Content-Type": "text/html"}
            self.answer(200, fields, b"logged in")
        elif (
            self.cookie not in self.headers.get("Cookie", "")
            and self.headers.get("Authorization") != self.password
        ):
            self.answer(401, {"WWW-Authenticate": 'Basic realm="x"'}, b"log in")
        else:
            headers = {k: self.headers[k] for k in ("Accept", "Content-Type") if k in self.headers}
            client = self.server_behind.client()
            answer = client.request(self.command, self.path, body, headers)
            client.close()
            self.answer(
                answer.status, {"Content-Type": answer.headers["Content-Type"]}, answer.body
            )

    do_POST = do_GET

    def answer(self, status, fields, body):
        self.send_response(status)
        for name, value in (fields | {"Content-Length": str(len(body))}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.mark.parametrize("way", ["cookie", "password"])
def test_it_works_behind_a_proxy_that_asks_for_a_login(pages, server, way):
    handler = type("OneLogin", (Login,), {"server_behind": server})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as proxy:
        threading.Thread(target=proxy.serve_forever, daemon=True).start()
        port = proxy.server_address[1]
        if way == "cookie":
            pages.driver.get(f"http://127.0.0.1:{port}/login")
        else:
            pages.driver.get(f"http://somebody:sesame@127.0.0.1:{port}/")
        page = pages.open(port)
        page.example("openvino", 0)
        until(lambda: page["state"].text == "ready")
        pages.driver.delete_all_cookies()
        proxy.shutdown()


# ---- tally console ----


def tally_console(tmp_path, *arguments, opener=True):
    (tmp_path / "bin").mkdir()
    if opener:
        program = tmp_path / "bin/xdg-open"
        program.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" >{tmp_path}/opened\n')
        program.chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}/bin:/bin" if opener else f"{tmp_path}/bin"}
    command = [str(BIN / "tally"), "console", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=60)


@pytest.mark.parametrize("given", ["http://127.0.0.1:9/sums/", "127.0.0.1:9/sums"])
def test_tally_console_prints_the_address_and_opens_it(tmp_path, given):
    done = tally_console(tmp_path, "--url", given)
    assert (done.returncode, done.stdout, done.stderr) == (0, "http://127.0.0.1:9/sums/\n", "")
    until(lambda: (tmp_path / "opened").exists() and (tmp_path / "opened").read_text())
    assert (tmp_path / "opened").read_text() == "http://127.0.0.1:9/sums/\n"


def test_tally_console_without_a_program_that_opens_prints_the_address(tmp_path):
    done = tally_console(tmp_path, opener=False)
    assert (done.returncode, done.stdout) == (0, "http://127.0.0.1:8000/\n")


def test_tally_console_says_that_no_browser_opens_a_socket(tmp_path):
    done = tally_console(tmp_path, "--url", "unix:/run/tally.sock")
    assert done.returncode == 2
    assert "Unix socket" in done.stderr
