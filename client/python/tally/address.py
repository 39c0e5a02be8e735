"""The address of a server, parsed from its URL.

    http://host:8000/prefix, https://host, host:8000    TCP
    http://[fe80::1%25eth0]:8000                        IPv6 with the zone of a link
    unix:/run/tally.sock, unix:///run/tally.sock        Unix socket; the rest is the path
    http+unix://%2Frun%2Ftally.sock/prefix              Unix socket; the host is the path, encoded

Failure: InvalidArgument, with an example of a valid URL. Thread: any.
"""

from __future__ import annotations

import os
import re
import urllib.parse
from typing import NamedTuple

from tally.errors import InvalidArgument

DEFAULT_PORT = 8000
DEFAULT_URL = f"http://127.0.0.1:{DEFAULT_PORT}"
SOCKET_PATH_MAX = 107  # bytes that fit sockaddr_un
_SCHEMES = ("http", "https", "unix", "http+unix")
_BROKEN_SCHEME = re.compile(r"([a-z+]+)(:/?|//)(?=[^/\d])", re.I)
_ROUTE = re.compile(r".*/(v1/cumsum|v2/models/cumsum)(/.*)?")


class Address(NamedTuple):
    """A server. ``prefix`` begins every path and ends without a slash."""

    url: str
    tls: bool
    host: str
    port: int
    socket_path: str | None
    prefix: str
    port_hint: str = ""  # for errors: the URL with tallyd's default port, if the URL has no port

    @property
    def name(self) -> str:
        """The host without the zone of an IPv6 address, which is valid on this machine only."""
        return self.host.partition("%")[0] if ":" in self.host else self.host

    @property
    def host_header(self) -> str:
        """The value of the header Host."""
        host = f"[{self.name}]" if ":" in self.host else self.host
        return host if self.port == (443 if self.tls else 80) else f"{host}:{self.port}"


def parse_address(url: str | None) -> Address:
    """Return the address of a URL; for None that of TALLY_URL, or of the default URL."""
    if url is None:
        url = os.environ.get("TALLY_URL") or DEFAULT_URL
    if url.startswith("unix:"):
        path = url.removeprefix("unix:")
        return _unix(url, path.removeprefix("//"), "")
    if url.startswith("/"):
        raise _unusable(url, "the path of a socket needs 'unix:' in front of it")
    broken = None if "://" in url else _BROKEN_SCHEME.match(url)
    if broken and broken[1].lower() in _SCHEMES:
        raise _unusable(url, f"'://' must follow {broken[1]!r}")
    try:
        parts = urllib.parse.urlsplit(url if "://" in url else f"http://{url}")
    except ValueError as error:
        raise _unusable(url, str(error)) from None
    if parts.query or parts.fragment or parts.username is not None:
        raise _unusable(url, "it must have no query ('?'), fragment ('#') or user name")
    if any(character <= " " or character > "~" for character in url):
        raise _unusable(url, "it has a blank, a control character or one that is not ASCII")
    prefix = parts.path.rstrip("/")
    if _ROUTE.fullmatch(parts.path):
        raise _unusable(url, "it has the path of a route, which the client appends by itself")
    if parts.scheme == "http+unix":
        return _unix(url, urllib.parse.unquote(parts.netloc), prefix)
    if parts.scheme not in ("http", "https"):
        raise _unusable(url, "its scheme must be http, https, unix or http+unix")
    port = _port_of(url, parts)
    host = _host_of(parts)
    if not host:
        raise _unusable(url, "it names no host")
    tls = parts.scheme == "https"
    hint = ""
    if port is None:
        usual = f"[{host}]" if ":" in host else host
        hint = f"{parts.scheme}://{usual}:{DEFAULT_PORT}{prefix}"
    return Address(url, tls, host, port or (443 if tls else 80), None, prefix, hint)


def _port_of(url: str, parts: urllib.parse.SplitResult) -> int | None:
    """Return the port; None if the URL has none."""
    try:
        port = parts.port
    except ValueError:
        port = 0
    if port == 0:
        raise _unusable(url, "its port must be a number from 1 to 65535")
    return port


def _host_of(parts: urllib.parse.SplitResult) -> str:
    """Return the host; an empty text if it cannot be one."""
    try:
        host = parts.hostname or ""
        if ":" in host:  # RFC 6874: "%25" separates the zone
            host = host.replace("%25", "%", 1)
        host.encode("idna")  # a connection encodes the host the same way
    except UnicodeError:
        return ""
    return host


def _unix(url: str, path: str, prefix: str) -> Address:
    if not path.startswith("/") or "\0" in path or len(os.fsencode(path)) > SOCKET_PATH_MAX:
        raise _unusable(
            url, f"the path of a socket must be absolute and at most {SOCKET_PATH_MAX} bytes long"
        )
    return Address(url, False, "localhost", 80, path, prefix)


def _unusable(url: str, why: str) -> InvalidArgument:
    _, at, after = url.rpartition("@")
    if at:  # the text before it may be a password
        url = f"***@{after}"
    return InvalidArgument(
        f"cannot use {url[:200]!r} as the server's URL: {why}. Write for example "
        f"{DEFAULT_URL} or unix:/run/tally.sock",
        field="url",
    )
