"""The console's files: read once at the start, served from memory, under names that change with
their content.

All are under /assets/HASH/ with a HASH of all files, so browsers may cache them for ever, and
modules import each other by their names on disk. Each file has its own route; paths are not
interpreted.
"""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from aiohttp import web

STATIC = Path(__file__).resolve().parent.parent / "static"
TYPES = {
    ".js": "text/javascript",
    ".mjs": "text/javascript",
    ".css": "text/css",
    ".svg": "image/svg+xml",
    ".html": "text/html",
}
# Only our files, no inline code, and no frames.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
SECURITY_HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), usb=()",
}
FOR_GOOD = "public, max-age=31536000, immutable"
LEVEL = 9  # compressed once, when a browser first asks for it
Handler = Callable[[web.Request], Awaitable[web.Response]]


@dataclass(frozen=True)
class Asset:
    path: str
    content_type: str
    body: bytes

    @cached_property
    def packed(self) -> bytes:
        return gzip.compress(self.body, LEVEL, mtime=0)

    def answer(self, request: web.Request, keep: str) -> web.Response:
        headers = {
            "Content-Type": f"{self.content_type}; charset=utf-8",
            "Cache-Control": keep,
            "Vary": "Accept-Encoding",
            **SECURITY_HEADERS,
        }
        if "gzip" in request.headers.get("Accept-Encoding", ""):
            headers["Content-Encoding"] = "gzip"
            return web.Response(body=self.packed, headers=headers)
        return web.Response(body=self.body, headers=headers)


def _files(directory: Path) -> Iterator[tuple[str, bytes]]:
    for file in sorted(directory.rglob("*")):
        if file.is_file() and file.suffix in TYPES:
            yield file.relative_to(directory).as_posix(), file.read_bytes()


def _asset(path: str, body: bytes) -> Asset:
    return Asset(path, TYPES[Path(path).suffix], body)


class Console:
    """The browser routes pages: every address below / gets the same page."""

    def __init__(self, directory: Path = STATIC) -> None:
        files = dict(_files(directory))
        page = files.pop("index.html").decode()
        whole = hashlib.sha256(b"".join(name.encode() + body for name, body in files.items()))
        self.prefix = f"/assets/{whole.hexdigest()[:12]}"
        self.assets = [_asset(*each) for each in files.items()]
        # Without this a browser discovers the imports one after the other.
        modules = "\n".join(
            f'<link rel="modulepreload" href="{self.prefix}/{each.path}">'
            for each in self.assets
            if each.content_type == "text/javascript"
        )
        page = page.replace("{preload}", modules).replace("{assets}", self.prefix)
        self.page = _asset("index.html", page.encode())

    def routes(self) -> list[web.RouteDef]:
        return [web.get("/", self._get_page)] + [
            web.get(f"{self.prefix}/{each.path}", self._getter(each)) for each in self.assets
        ]

    async def _get_page(self, request: web.Request) -> web.Response:
        return self.page.answer(request, "no-cache")

    @staticmethod
    def _getter(asset: Asset) -> Handler:
        async def get_asset(request: web.Request) -> web.Response:
            return asset.answer(request, FOR_GOOD)

        return get_asset
