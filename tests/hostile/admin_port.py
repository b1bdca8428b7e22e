"""One attacked broker for all tests of the admin port, and its checks after each of them."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from appliance.access.audit_rows import AuditRow, AuditRows
from appliance.catalog.catalog import NAME, Catalog
from tests.hostile.witness import Load, Witness
from tests.support.http_client import HttpClient
from tests.support.serving import Serving

# Seconds, as at the Kafka port, with a margin for a busy machine.
SLOWEST_S = {"data": 10.0, "control": 10.0}
MIB = 1 << 20
PASSWORD = "correct horse battery"
DEADLINE_S = 20.0

# Small limits, so that an attack reaches them soon.
SETTINGS = {
    "admin.max.connections.total": 40,
    "admin.max.connections.per.ip": 30,
    "admin.request.timeout.ms": 600,
    "admin.idle.timeout.ms": 1500,
    "admin.send.timeout.ms": 800,
    "admin.streams.per.user": 3,
    "connections.max.idle.ms": 3_600_000,  # the witness rests while other rooms have the machine
    "log.similar.lines.max": 1_000_000,  # each attack looks for its own line
}

# Two hashes of 64 MiB at a time, and the memory of 40 connections: heads, and 256 KiB per read.
GROWTH_MAX = 160 * MIB
LOG_MAX = 64 << 10  # bytes of log per attack: repeated lines are only counted


class Pages:
    """A broker whose admin port has a user, and the browser in which she has logged in."""

    def __init__(self, folder: Path) -> None:
        self.serving = Serving(folder, **SETTINGS)
        self.address, self.bulk_address = (
            (host, int(port))
            for host, _, port in (
                each.rpartition(":") for each in (self.serving.admin, self.serving.export)
            )
        )
        link = re.search(r"#/setup/(\S+)", self.serving.wait_for_log("#/setup/"))
        assert link
        body = {"token": link[1], "name": "ada", "password": PASSWORD}
        with self.client() as client:
            answer = client.ask("POST /api/v1/setup", body)
        assert answer.status == 204, answer.body
        session, device = answer.cookies
        self.cookies, self.device = f"Cookie: {session}; {device}", f"Cookie: {device}"
        self.data = folder / "data"
        self.password = PASSWORD

    def client(self, source: str = "127.0.0.1", timeout: float = DEADLINE_S) -> HttpClient:
        return HttpClient(self.address, source, timeout)

    def bulk_client(self, source: str = "127.0.0.1") -> HttpClient:
        """A client of the port for bulk data."""
        return HttpClient(self.bulk_address, source, DEADLINE_S)

    def log_in(self, source: str, name: str, password: str, *headers: str) -> int:
        with self.client(source, 60) as client:
            body = {"name": name, "password": password}
            return client.ask("POST /api/v1/login", body, headers).status

    def trail(self) -> list[AuditRow]:
        """The audit trail on disk, after the stop of the broker."""
        catalog = Catalog.open(self.data / NAME)
        rows = AuditRows(catalog).newest(None, 100_000)
        catalog.close()
        return rows


class Visitor(Load):
    """Ada loads her pages all the time, over one connection that reconnects."""

    def __init__(self, pages: Pages) -> None:
        super().__init__()
        self._pages = pages
        self.slowest, self.answers = 0.0, 0
        self.faults: list[str] = []
        self.start(self._run)

    def _run(self) -> None:
        while not self._is_over.is_set():
            try:
                with self._pages.client() as client:
                    while self.goes_on():
                        self._look(client)
            except (EOFError, ConnectionError):
                continue  # as a browser does
            except (OSError, AssertionError) as fault:
                self.faults.append(repr(fault))
                return

    def _look(self, client: HttpClient) -> None:
        begin = time.monotonic()
        answer = client.ask("GET /api/v1/session", headers=[self._pages.cookies])
        assert answer.told["name"] == "ada", answer.body
        self.slowest = max(self.slowest, time.monotonic() - begin)
        self.answers += 1

    def wait(self) -> None:
        before, end = self.answers, time.monotonic() + DEADLINE_S
        while self.answers == before and not self.faults:
            assert time.monotonic() < end, "she gets no answer"
            time.sleep(0.002)


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pages]:
    made = Pages(tmp_path_factory.mktemp("pages"))
    yield made
    assert made.serving.stop() == 0, made.serving.log[-3000:]


@pytest.fixture(scope="session")
def kafka(served: Pages) -> Iterator[Witness]:
    made = Witness(served.serving.kafka)
    yield made
    made.close()
    assert made.faults == []


@pytest.fixture(scope="session")
def visitor(served: Pages) -> Iterator[Visitor]:
    made = Visitor(served)
    yield made
    made.close()


@pytest.fixture(scope="session")
def calm_pages_bytes(served: Pages, kafka: Witness, visitor: Visitor) -> int:
    for _ in range(20):
        kafka.wait()
        visitor.wait()
    return served.serving.resident_bytes


@pytest.fixture
def pages(
    served: Pages, kafka: Witness, visitor: Visitor, calm_pages_bytes: int
) -> Iterator[Pages]:
    """The attacked broker. Afterwards it must be up, small, quick for others, and its log short."""
    serving = served.serving
    serving.forget_peak()
    kafka.forget()
    visitor.slowest, log_bytes = 0.0, len(serving.log)
    with kafka.at_work(), visitor.at_work():
        yield served
        assert serving.process.poll() is None, serving.log[-3000:]
        kafka.wait()
        visitor.wait()
    assert kafka.faults == visitor.faults == []
    growth, said = serving.peak_bytes - calm_pages_bytes, len(serving.log) - log_bytes
    print(f"grew by {growth / MIB:.1f} MiB, {said} bytes of log; slowest answers {kafka.slowest}, "
          f"of the pages {visitor.slowest:.2f} s")  # fmt: skip
    assert growth < GROWTH_MAX
    assert said < LOG_MAX, serving.log[-3000:]
    assert all(kafka.slowest[kind] < most for kind, most in SLOWEST_S.items()), kafka.slowest
    assert visitor.slowest < SLOWEST_S["control"]
    assert "Traceback" not in serving.log, serving.log[-3000:]
    assert " error " not in serving.log, serving.log[-3000:]
