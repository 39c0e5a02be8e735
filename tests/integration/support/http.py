"""A small HTTP client over http.client: keep-alive, exact headers, and nothing automatic that a
test did not request. One Client belongs to one thread."""

import http.client
import json
import pathlib
import re
import socket
import ssl
import struct

from .waiting import until


class Answer:
    """Status, headers (case-insensitive) and body of one answer."""

    def __init__(self, status, headers, body):
        self.status = status
        self.headers = headers
        self.body = body

    def json(self):
        return json.loads(self.body)

    def __repr__(self):
        return f"<{self.status} {self.headers.get('Content-Type')} {self.body[:300]!r}>"


class Client:
    def __init__(self, port, timeout=60, context=None, source=""):
        """context: an ssl.SSLContext, for HTTPS; source: the client's address."""
        options = {"timeout": timeout, "source_address": (source, 0)}
        if context is None:
            self.connection = http.client.HTTPConnection("127.0.0.1", port, **options)
        else:
            self.connection = http.client.HTTPSConnection(
                "127.0.0.1", port, context=context, **options
            )

    def request(self, method, path, body=None, headers=None):
        """Send one request. If the server has closed the idle connection, it is opened again,
        once."""
        fresh = self.connection.sock is None
        try:
            return self._exchange(method, path, body, headers)
        except (http.client.RemoteDisconnected, ConnectionResetError, BrokenPipeError):
            self.connection.close()
            if fresh:
                raise
            return self._exchange(method, path, body, headers)

    def _exchange(self, method, path, body, headers):
        try:
            self.connection.request(method, path, body=body, headers=headers or {})
            response = self.connection.getresponse()
            return Answer(response.status, response.headers, response.read())
        except BaseException:
            self.connection.close()
            raise

    def get(self, path, headers=None):
        return self.request("GET", path, headers=headers)

    def post(self, path, body=b"", content_type=None, headers=None):
        headers = dict(headers or {})
        if content_type is not None:
            headers["Content-Type"] = content_type
        return self.request("POST", path, body=body, headers=headers)

    def post_json(self, path, document, headers=None):
        return self.post(path, json.dumps(document).encode(), "application/json", headers)

    def close(self):
        self.connection.close()


class Wire:
    """A raw socket to the server, for bytes that no well-behaved client sends."""

    def __init__(self, port, timeout=30, context=None, source="", path=None, window=None):
        """context: an ssl.SSLContext, for HTTPS; source: the client's address; path: the path
        of a Unix socket; window: size in bytes of the client's receive buffer: if it is small,
        most of an unread answer stays on the server's side."""
        self.socket = socket.socket(socket.AF_INET if path is None else socket.AF_UNIX)
        if window is not None:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, window)
        self.socket.settimeout(timeout)
        try:
            if path is None:
                self.socket.bind((source, 0))
                self.socket.connect(("127.0.0.1", port))
            else:
                self.socket.connect(path)
        except BaseException:
            self.socket.close()
            raise
        if context is not None:
            self.socket = context.wrap_socket(self.socket, server_hostname="127.0.0.1")
        self.buffer = b""

    def send(self, data):
        try:
            self.socket.sendall(data)
        except ssl.SSLEOFError as error:
            raise BrokenPipeError from error
        return self

    def _seen_by_server(self):
        """Returns the TCP state of the server's socket, and the number of received bytes that
        the server has not read. They are in the socket's row of /proc/net/tcp (addresses,
        state, send and receive queue)."""
        mine, theirs = self.socket.getsockname()[1], self.socket.getpeername()[1]
        for row in pathlib.Path("/proc/net/tcp").read_text().splitlines()[1:]:
            _, local, remote, state, queues = row.split()[:5]
            if (int(local[-4:], 16), int(remote[-4:], 16)) == (theirs, mine):
                return int(state, 16), int(queues.split(":")[1], 16)
        return None, None

    def await_read(self):
        """Wait until the server has read all bytes that were sent. The server handles them before
        it answers any later request."""
        until(lambda: self._seen_by_server()[1] == 0, 60)
        return self

    def unacknowledged(self):
        """Number of our segments that the server's system has not acknowledged (tcpi_unacked)."""
        info = self.socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104)
        return struct.unpack_from("I", info, 24)[0]

    def metric(self, name):
        """Query a metric over this connection, so that no other connection is counted."""
        page = self.send(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").answer().body.decode()
        return float(re.search(rf"^{name} (\S+)$", page, re.M)[1])

    def is_alone(self):
        """Whether the server has no other connection."""
        return self.metric("tally_connections") == 1

    def await_half_closed(self):
        """Wait until the server's system has received half_close()."""
        close_wait = 8
        until(lambda: self._seen_by_server()[0] == close_wait, 60)
        return self

    def half_close(self):
        """Half-close the TCP connection; with TLS, no close_notify is sent."""
        socket.socket.shutdown(self.socket, socket.SHUT_WR)
        return self

    def answer(self, head_request=False):
        """Read exactly one answer; ConnectionError if the server closes before its end."""
        while b"\r\n\r\n" not in self.buffer:
            self._more()
        head, self.buffer = self.buffer.split(b"\r\n\r\n", 1)
        status_line, *lines = head.decode("latin-1").split("\r\n")
        headers = http.client.HTTPMessage()
        for line in lines:
            name, value = line.split(":", 1)
            headers[name] = value.strip()
        status = int(status_line.split()[1])
        body = b""
        if status != 100 and not head_request:
            length = int(headers.get("Content-Length", "0"))
            pieces, got = [self.buffer], len(self.buffer)
            while got < length:
                self.buffer = b""
                self._more()
                pieces.append(self.buffer)
                got += len(self.buffer)
            whole = b"".join(pieces)
            body, self.buffer = whole[:length], whole[length:]
        return Answer(status, headers, body)

    def answer_after_100(self):
        """The answer to a request that expects 100 and was sent with its body: libmicrohttpd 1.0
        omits the 100, which RFC 9110 permits; 0.9.75 sends it."""
        answer = self.answer()
        return self.answer() if answer.status == 100 else answer

    def _more(self):
        data = self.socket.recv(1 << 20)
        if not data:
            raise ConnectionError(f"closed by the server after {self.buffer[:200]!r}")
        self.buffer += data

    def closed(self):
        """True once the server has closed (waits for it up to the timeout)."""
        try:
            while True:
                data = self.socket.recv(1 << 16)
                if not data:
                    return True
                self.buffer += data
        except (ConnectionResetError, BrokenPipeError):
            return True
        except TimeoutError:
            return False

    def close(self):
        self.socket.close()

    def reset(self):
        """Close with a reset: a plain close may look like a half-close."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def post_bytes(path, body, headers=(), version="1.1"):
    """The bytes of a POST with a correct Content-Length."""
    lines = [
        f"POST {path} HTTP/{version}",
        "Host: localhost",
        f"Content-Length: {len(body)}",
    ]
    lines += [f"{name}: {value}" for name, value in headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body
