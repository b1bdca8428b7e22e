"""Servers that speak S3: moto, which keeps all in memory and checks no signature, and Versity's
gateway, a server for production that keeps a bucket in a folder."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.interop.kafka_jars import CACHE
from tests.support.alert_receivers import free_port
from tests.support.made_once import made_once

KEY, SECRET = "tester", "a-secret-of-tests"
VERSION = "v1.8.0"
MODULE = f"github.com/versity/versitygw/cmd/versitygw@{VERSION}"
DEADLINE_S = 120.0  # Node takes twenty seconds on a busy machine

Running = Callable[[Path], AbstractContextManager[str]]  # its URL


@contextmanager
def moto(_: Path) -> Iterator[str]:
    """Its buckets are the process's, not the server's, so none is left to the next one."""
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    forget = HTTPConnection(host, port)
    forget.request("POST", "/moto-api/reset")
    assert forget.getresponse().status == 200
    forget.close()
    server.stop()


class Unconditional(BaseHTTPRequestHandler):
    """Passes on all but the condition, as stores do that do not know it. S3 and Azure have it as a
    header, GCS in the query."""

    protocol_version = "HTTP/1.1"
    behind = ""

    def pass_on(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        kept = {name: value for name, value in self.headers.items() if name != "If-None-Match"}
        connection = HTTPConnection(urlsplit(self.behind).netloc)
        path = self.path.replace("ifGenerationMatch=0", "of-none=0")
        connection.request(self.command, path, body, kept)
        answer = connection.getresponse()
        data = answer.read()
        self.send_response(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in ("connection", "content-length", "transfer-encoding"):
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(b"" if self.command == "HEAD" else data)
        connection.close()

    do_GET = do_PUT = do_HEAD = do_DELETE = do_POST = pass_on

    def log_message(self, *_: object) -> None:
        """Silent."""


@contextmanager
def unconditional(url: str) -> Iterator[str]:
    """A store that writes whatever there is already."""
    handler = type("Behind", (Unconditional,), {"behind": url})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@contextmanager
def versity(folder: Path) -> Iterator[str]:
    gateway = Gateway(folder, free_port())
    gateway.start()
    try:
        yield gateway.url
    finally:
        gateway.kill()


class Gateway:
    """Of Versity. It can be killed, and started again with what it has."""

    def __init__(self, folder: Path, port: int) -> None:
        self.folder, self.port = folder, port
        self.url = f"http://127.0.0.1:{port}"

    def start(self) -> None:
        data, sidecar = self.folder / "buckets", self.folder / "attributes"
        for each in (data, sidecar):  # it has attributes beside: tmpfs has no xattrs of users
            each.mkdir(parents=True, exist_ok=True)
        program = built_by_go("versitygw", VERSION, MODULE)
        command = [program, "--port", f"127.0.0.1:{self.port}", "--quiet", "posix",
                   "--sidecar", str(sidecar), str(data)]  # fmt: skip
        keys = {"ROOT_ACCESS_KEY": KEY, "ROOT_SECRET_KEY": SECRET}
        self.process = started(command, self.port, self.folder / "log", **keys)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


def built_by_go(name: str, version: str, module: str) -> str:
    if found := shutil.which(name):
        return found
    go = shutil.which("go")
    assert go is not None, f"wanted {name} in PATH, or go, which builds it"
    with made_once(CACHE / f"{name}-{version}") as folder:
        if folder is not None:
            subprocess.run([go, "install", module], env={**os.environ, "GOBIN": str(folder)},
                           check=True)  # fmt: skip
    return str(CACHE / f"{name}-{version}" / name)


def started(command: list[str], port: int, log: Path, **more: str) -> subprocess.Popen[bytes]:
    """Which answers at its port."""
    with log.open("a") as told:
        process = subprocess.Popen(command, env={**os.environ, **more}, stdout=told, stderr=told)
    try:
        await_port(port, process, log)
    except BaseException:
        process.kill()
        process.wait()
        raise
    return process


@contextmanager
def served(command: list[str], port: int, log: Path, **more: str) -> Iterator[None]:
    process = started(command, port, log, **more)
    try:
        yield
    finally:
        process.kill()
        process.wait()


def await_port(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + DEADLINE_S
    while True:
        try:
            return socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            assert process.poll() is None, log.read_text()[-2000:]
            assert time.monotonic() < end
            time.sleep(0.02)


def settings_of(url: str) -> dict[str, str]:
    return {"AWS_ENDPOINT_URL": url, "AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_DEFAULT_REGION": "us-east-1"}  # fmt: skip


@contextmanager
def s3_service(running: Running, folder: Path, bucket: str) -> Iterator[Any]:
    """With an empty bucket, as its usual client sees it. Commands find it by their environment."""
    with running(folder) as url, pytest.MonkeyPatch.context() as patch:
        for name, value in settings_of(url).items():
            patch.setenv(name, value)
        import s3fs

        s3fs.S3FileSystem.clear_instance_cache()  # of another service, by the same words
        client = s3fs.S3FileSystem(skip_instance_cache=True, use_listings_cache=False)
        client.mkdir(bucket)
        yield client
