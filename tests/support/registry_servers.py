"""Schema registries on a real socket: Apicurio, and a server that repeats what a real one said."""

from __future__ import annotations

import json
import subprocess
import tarfile
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from loadtest.ports import lasting_port
from tests.interop import kafka_jars
from tests.support.made_once import made_once
from tests.support.registry_schemas import Recording

APICURIO = "3.0.9"  # newer ones want Java 21: 3.3.3 does
PATH = "/apis/ccompat/v7"
DEADLINE_S = 300.0  # it starts in 6 s of a processor, and there may be little of one


class RepeatingRegistry:
    """What it does instead is said by `wrong`: a handler that has answered gives True."""

    def __init__(self, recording: Recording) -> None:
        self.ids, self.asked = recording.ids, list[str]()
        self.headers = list[dict[str, str]]()
        self.wrong: Callable[[BaseHTTPRequestHandler], bool] = lambda _: False
        self.answers: dict[str, tuple[int, Any]] = dict(recording.answers)
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        self._thread = threading.Thread(target=self.server.serve_forever, args=(0.05,))
        self._thread.start()

    def close(self) -> None:
        self.server.shutdown()
        self._thread.join()
        self.server.server_close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        own = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                own.asked.append(self.path)
                own.headers.append(dict(self.headers))
                if not own.wrong(self):
                    tell(self, *own.answers.get(self.path, (404, {"error_code": 40403})))

            def log_message(self, *_: Any) -> None:
                pass

        return Handler


def tell(handler: BaseHTTPRequestHandler, status: int, answer: Any, **headers: str) -> None:
    body = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
    handler.send_response(status)
    for name, value in {"Content-Length": str(len(body)), **headers}.items():
        handler.send_header(name, value)
    handler.end_headers()
    handler.wfile.write(body)


@cache
def apicurio_jar() -> Path:
    """From Maven, once."""
    artifact = f"io.apicurio:apicurio-registry-app:{APICURIO}:tar.gz:all"
    wanted = kafka_jars.CACHE / f"apicurio-{APICURIO}"
    with made_once(wanted) as folder:
        if folder is not None:
            kafka_jars._maven("dependency:copy", f"-Dartifact={artifact}",
                              f"-DoutputDirectory={folder}")  # fmt: skip
            (packed,) = folder.glob("*.tar.gz")
            with tarfile.open(packed) as archive:
                archive.extractall(folder, filter="data")
            packed.unlink()
    (jar,) = wanted.glob("*-runner.jar")
    return jar


@contextmanager
def apicurio(bootstrap: str, folder: Path) -> Iterator[str]:
    """With its storage in the Kafka there: it writes a journal, and reads it back at its start."""
    port = lasting_port()
    settings = {
        "quarkus.http.host": "127.0.0.1",
        "quarkus.http.port": port,
        "apicurio.storage.kind": "kafkasql",
        "apicurio.kafkasql.bootstrap.servers": bootstrap,
    }
    flags = [f"-D{name}={value}" for name, value in settings.items()]
    with (folder / "apicurio.log").open("ab") as said:
        process = subprocess.Popen(
            [kafka_jars.java(), *kafka_jars.TOOL_FLAGS, *flags, "-jar", str(apicurio_jar())],
            cwd=folder, stdout=said, stderr=said,
        )  # fmt: skip
    try:
        url = f"http://127.0.0.1:{port}{PATH}"
        await_answer(f"{url}/subjects", process, folder / "apicurio.log")
        yield url
    finally:
        process.terminate()
        process.wait(60)


def await_answer(url: str, process: subprocess.Popen[bytes], said: Path) -> None:
    end = time.monotonic() + DEADLINE_S
    while not answers(url):
        assert process.poll() is None, said.read_text()[-3000:]
        assert time.monotonic() < end, url
        time.sleep(0.2)


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=DEADLINE_S):
            return True
    except OSError:
        return False
