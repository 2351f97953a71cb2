"""The explorer's server: one page and the runs that it asks for, on this machine's loopback alone.
A request needs the random token of the address, and a Host and Origin that are the server's own, so
that no other page that is open in the browser can have programs run.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from cutedialect.tools.explore_page import page

_LOOPBACK = "127.0.0.1"
# Bytes of a request: a program, not an array.
_MOST_BYTES = 1 << 20
_FIELDS = ("source", "kind", "target", "schedule")
Run = Callable[[str, str, str, str], dict[str, Any]]


class Refused(Exception):  # noqa: N818
    """A request that is not answered, and why."""

    def __init__(self, status: HTTPStatus, why: str) -> None:
        super().__init__(why)
        self.status = status


class ExploreServer(ThreadingHTTPServer):
    """Serves a page on a text, and answers what `run` gives for edited ones."""

    daemon_threads = True

    def __init__(self, port: int, name: str, source: str, run: Run) -> None:
        super().__init__((_LOOPBACK, port), _Handler)
        self.name = name
        self.source = source
        self.run = run
        self.token = secrets.token_urlsafe(24)

    @property
    def hosts(self) -> tuple[str, ...]:
        """What a Host header may be."""
        return tuple(f"{host}:{self.server_port}" for host in (_LOOPBACK, "localhost"))

    @property
    def address(self) -> str:
        """Where the page is, with the token."""
        return f"http://{self.hosts[0]}/?token={self.token}"


class _Handler(BaseHTTPRequestHandler):
    server: ExploreServer  # pyright: ignore[reportIncompatibleVariableOverride]
    server_version = "cutedialect"
    sys_version = ""
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:
        """Requests hold the token, and are not told."""

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        try:
            self._check((parse_qs(parts.query).get("token") or [""])[0])
            if parts.path != "/":
                raise Refused(HTTPStatus.NOT_FOUND, f"expected /, got {parts.path}")
        except Refused as error:
            self._refuse(error)
            return
        nonce = secrets.token_urlsafe(16)
        policy = (
            f"default-src 'none'; script-src 'nonce-{nonce}'; style-src 'unsafe-inline'; "
            "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
        )
        text = page(self.server.name, self.server.source, self.server.token, nonce)
        self._answer(HTTPStatus.OK, "text/html; charset=utf-8", text, policy)

    def do_POST(self) -> None:
        try:
            self._check(self.headers.get("X-Explore-Token", ""))
            if self.path != "/run":
                raise Refused(HTTPStatus.NOT_FOUND, f"expected /run, got {self.path}")
            asked = self._asked()
        except Refused as error:
            self._refuse(error)
            return
        found = self.server.run(*asked)
        self._answer(HTTPStatus.OK, "application/json", json.dumps(found))

    def _check(self, token: str) -> None:
        """Refuse what does not come from the page."""
        host, origin = self.headers.get("Host", ""), self.headers.get("Origin")
        if host not in self.server.hosts:
            raise Refused(
                HTTPStatus.FORBIDDEN, f"expected the host {self.server.hosts[0]}, got {host}"
            )
        if origin is not None and origin not in [f"http://{each}" for each in self.server.hosts]:
            raise Refused(HTTPStatus.FORBIDDEN, f"expected a request of the page, got {origin}")
        if not secrets.compare_digest(token.encode(), self.server.token.encode()):
            raise Refused(HTTPStatus.FORBIDDEN, "expected the token of the address, got another")

    def _asked(self) -> tuple[str, str, str, str]:
        if self.headers.get_content_type() != "application/json":
            raise Refused(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "expected application/json")
        length = self.headers.get("Content-Length", "")
        if not length.isascii() or not length.isdigit() or int(length) > _MOST_BYTES:
            raise Refused(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"expected at most {_MOST_BYTES} bytes"
            )
        try:
            asked = json.loads(self.rfile.read(int(length)))
            source, kind, target, schedule = (asked[name] for name in _FIELDS)
        except (ValueError, TypeError, KeyError):
            raise Refused(HTTPStatus.BAD_REQUEST, f"expected an object of {_FIELDS}") from None
        given = source, kind, target, schedule
        if kind not in ("python", "ir") or not all(isinstance(each, str) for each in given):
            raise Refused(HTTPStatus.BAD_REQUEST, "expected texts, of the kind python or ir")
        return given

    def _refuse(self, error: Refused) -> None:
        self.close_connection = True
        self._answer(error.status, "text/plain; charset=utf-8", f"{error}\n")

    def _answer(self, status: HTTPStatus, kind: str, text: str, policy: str = "") -> None:
        body = text.encode()
        self.send_response(status)
        headers = {
            "Content-Type": kind,
            "Content-Length": str(len(body)),
            "Cache-Control": "no-store",
            "Referrer-Policy": "no-referrer",
            "X-Content-Type-Options": "nosniff",
            "Content-Security-Policy": policy or "default-src 'none'",
        }
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)
