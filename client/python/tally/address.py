"""Where a server is, from its URL.

    http://host:8000/prefix, https://host, host:8000    TCP
    http://[fe80::1%25eth0]:8000                        IPv6, of a link that is named
    unix:/run/tally.sock, unix:///run/tally.sock        Unix socket, the rest is the path as it is
    http+unix://%2Frun%2Ftally.sock/prefix              Unix socket, its path in the host's place

Failure: InvalidArgument, with an example of what would do.
"""

from __future__ import annotations

import os
import urllib.parse
from typing import NamedTuple

from tally.errors import InvalidArgument

DEFAULT_URL = "http://127.0.0.1:8000"
SOCKET_PATH_MAX = 107  # bytes that fit sockaddr_un


class Address(NamedTuple):
    """A server. ``prefix`` begins every path and ends without a slash."""

    url: str
    tls: bool
    host: str
    port: int
    socket_path: str | None
    prefix: str

    @property
    def name(self) -> str:
        """The host without the zone of an IPv6 address, which means something here alone."""
        return self.host.partition("%")[0] if ":" in self.host else self.host

    @property
    def host_header(self) -> str:
        host = f"[{self.name}]" if ":" in self.host else self.host
        return host if self.port == (443 if self.tls else 80) else f"{host}:{self.port}"


def parse_address(url: str | None) -> Address:
    """The address of a URL; of TALLY_URL, else of the default, for None."""
    if url is None:
        url = os.environ.get("TALLY_URL") or DEFAULT_URL
    if url.startswith("unix:"):
        path = url.removeprefix("unix:")
        return _unix(url, path.removeprefix("//"), "")
    try:
        parts = urllib.parse.urlsplit(url if "://" in url else f"http://{url}")
        port = parts.port
    except ValueError as error:
        raise _unusable(url, str(error)) from None
    prefix = parts.path.rstrip("/")
    if parts.query or parts.fragment or parts.username is not None:
        raise _unusable(url, "it must have no query ('?'), fragment ('#') or user name")
    if any(character <= " " or character > "~" for character in url):
        raise _unusable(url, "it has a blank, a control character or one that is not ASCII")
    if parts.scheme == "http+unix":
        return _unix(url, urllib.parse.unquote(parts.netloc), prefix)
    if port == 0:
        raise _unusable(url, "its port is 0")
    if parts.scheme not in ("http", "https"):
        raise _unusable(url, "its scheme must be http, https, unix or http+unix")
    try:
        host = parts.hostname or ""
        if ":" in host:  # RFC 6874: a zone stands behind an encoded '%'
            host = host.replace("%25", "%", 1)
        host.encode("idna")  # as connecting will
    except UnicodeError:
        host = ""
    if not host:
        raise _unusable(url, "it names no host")
    tls = parts.scheme == "https"
    return Address(url, tls, host, port or (443 if tls else 80), None, prefix)


def _unix(url: str, path: str, prefix: str) -> Address:
    if not path.startswith("/") or "\0" in path or len(os.fsencode(path)) > SOCKET_PATH_MAX:
        raise _unusable(url, f"a socket's path is absolute, at most {SOCKET_PATH_MAX} bytes long")
    return Address(url, False, "localhost", 80, path, prefix)


def _unusable(url: str, why: str) -> InvalidArgument:
    _, at, after = url.rpartition("@")
    if at:  # what stands before it may be a password
        url = f"***@{after}"
    return InvalidArgument(
        f"cannot use {url[:200]!r} as the server's URL: {why}. Write for example "
        f"{DEFAULT_URL} or unix:/run/tally.sock",
        field="url",
    )
