"""An HTTP server that does exactly what its script says, even if that is wrong: it cuts answers at
any byte, sends wrong lengths, sends slowly, hangs, or answers early.
tests/client/lib/fake_server.c is the same in C.
"""

import contextlib
import os
import socket
import struct
import threading
from dataclasses import dataclass

INPUT, SUMS = [1, 2, 3, 4], [1, 3, 6, 10]


@dataclass
class Seen:
    """A request as received."""

    number: int  # number of the request, counted from 0 over all connections
    head: str
    body: bytes


@dataclass
class Told:
    """An answer."""

    data: bytes
    cut: int | None = None  # close after this many bytes
    reset: bool = False  # close with a reset
    close: bool = False  # close after the answer
    hang: bool = False  # after the answer, keep the connection open and send nothing
    drip: float = 0  # seconds between bytes


def tensor(dtype="float32", shape="4", body=struct.pack("<4f", *SUMS), **how):
    """A correct answer to POST /v1/cumsum."""
    head = (
        "HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\n"
        f"Tally-Dtype: {dtype}\r\nTally-Shape: {shape}\r\nX-Request-Id: req-7\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    return Told(head.encode() + body, **how)


def error(status, more="", body='{"error":"the queue is full","code":"queue_full"}', **how):
    head = (
        f"HTTP/1.1 {status} Sorry\r\nContent-Type: application/json\r\n"
        f"X-Request-Id: req-8\r\nContent-Length: {len(body)}\r\n{more}\r\n"
    )
    return Told(head.encode() + body.encode(), **how)


class LyingServer:
    """script(seen) returns the answer. early: number of body bytes that are read before the
    script runs; None: all. interim: bytes that are sent before the body is read. tls: an
    ssl.SSLContext."""

    def __init__(self, script, early=None, path=None, tls=None, interim=b""):
        self.script, self.early, self.tls, self.interim = script, early, tls, interim
        self.lock = threading.Lock()
        self.requests = self.connections = 0
        self.heads = []
        self.stopping = threading.Event()
        self.threads, self.open = [], set()
        if path is None:
            self.listener = socket.create_server(("127.0.0.1", 0), backlog=256)
            name = "http://127.0.0.1" if tls is None else "https://localhost"
            self.url = f"{name}:{self.listener.getsockname()[1]}"
        else:
            self.listener = socket.socket(socket.AF_UNIX)
            self.listener.bind(os.fspath(path))
            self.listener.listen(256)
            self.url = f"unix:{path}"
        self.acceptor = threading.Thread(target=self._accept)
        self.acceptor.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stopping.set()
        with contextlib.suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self.acceptor.join()
        self.listener.close()
        with self.lock:
            for connection in self.open:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
        for thread in self.threads:
            thread.join()

    def _accept(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            with self.lock:
                self.connections += 1
                self.open.add(connection)
            thread = threading.Thread(target=self._serve, args=(connection,))
            self.threads.append(thread)
            thread.start()

    def _serve(self, connection):
        try:
            if self.tls is not None:
                with self.lock:
                    self.open.discard(connection)
                connection = self.tls.wrap_socket(connection, server_side=True)
                with self.lock:
                    self.open.add(connection)
            while not self.stopping.is_set() and self._serve_one(connection):
                pass
        except OSError:
            pass
        finally:
            with self.lock:
                self.open.discard(connection)
                connection.close()

    def _serve_one(self, connection):
        data = b""
        while b"\r\n\r\n" not in data:
            got = connection.recv(65536)
            if not got:
                return False
            data += got
        head, _, body = data.partition(b"\r\n\r\n")
        head = head.decode() + "\r\n"
        lengths = [
            line for line in head.lower().split("\r\n") if line.startswith("content-length:")
        ]
        wanted = int(lengths[0].split(":")[1]) if lengths else 0
        wanted = wanted if self.early is None else min(wanted, self.early)
        connection.sendall(self.interim)
        while len(body) < wanted:
            got = connection.recv(1 << 20)
            if not got:
                return False
            body += got
        with self.lock:
            seen = Seen(self.requests, head, body)
            self.requests += 1
            self.heads.append(head)
        return self._tell(connection, self.script(seen))

    def _tell(self, connection, told):
        data = told.data if told.cut is None else told.data[: told.cut]
        if told.drip:
            for at in range(len(data)):
                connection.sendall(data[at : at + 1])
                if self.stopping.wait(told.drip):
                    return False
        else:
            connection.sendall(data)
        if told.hang:
            self.stopping.wait()
        if told.reset:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        return told.cut is None and not (told.close or told.reset or told.hang)
