"""One attacked broker for all tests, and its checks after each of them."""

from __future__ import annotations

import resource
from collections.abc import Iterator

import pytest

from tests.hostile.admin_port import calm_pages_bytes, kafka, pages, served, visitor  # noqa: F401
from tests.hostile.witness import Witness
from tests.support.serving import Serving
from tests.support.wire_client import WireClient

MIB = 1 << 20

# Small limits, so that an attack reaches them soon; docs/hostile-inputs.md has a row for each.
SETTINGS = {
    "connection.frame.timeout.ms": 600,
    "connection.send.timeout.ms": 1500,
    "connections.max.idle.ms": 3_600_000,  # the witness rests while other rooms have the machine
    "queued.max.request.bytes": 32 * MIB,
    "control.max.bytes": 2 * MIB,
    "max.partitions.total": 500,
    "max.topics.per.request": 20,
    "max.connections.per.ip": 300,
    "queued.max.response.bytes": 48 * MIB,
    "fetch.max.total.partitions": 100_000,
    "group.share.max.share.sessions": 200,
    "group.share.partition.max.record.locks": 200,
    "log.similar.lines.max": 1_000_000,  # each attack looks for its own line
}

# Memory that a broker may use under attack beyond its memory before. 70 MiB: the largest request
# for the control plane as objects, 35 times 2 MiB. 32 MiB: arriving requests. 96 MiB: responses,
# whose memory doubles as they grow. Half as much again: memory that the allocator keeps.
GROWTH_MAX = 300 * MIB

# An attack that takes all memory must end the broker, not the machine that runs the tests.
ADDRESS_SPACE = 8 << 30

# On an idle machine it is 0.2 s, and for the control plane 1 s: one large request is decoded while
# others wait. The rest is a margin for a busy machine and disk.
SLOWEST_S = {"data": 10.0, "control": 10.0}


@pytest.fixture(scope="session")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    made = Serving(tmp_path_factory.mktemp("hostile"), **SETTINGS)
    resource.prlimit(made.process.pid, resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
    yield made
    assert made.stop() == 0, made.log[-3000:]


@pytest.fixture(scope="session")
def witness(serving: Serving) -> Iterator[Witness]:
    made = Witness(serving.kafka)
    yield made
    made.close()
    assert made.faults == []


@pytest.fixture(scope="session")
def calm_bytes(serving: Serving, witness: Witness) -> int:
    """The broker's memory with well-behaved clients alone."""
    for _ in range(20):
        witness.wait()
    return serving.resident_bytes


@pytest.fixture
def broker(serving: Serving, witness: Witness, calm_bytes: int) -> Iterator[Serving]:
    """The attacked broker. Afterwards it must be up, small, quick for others, without new
    errors."""
    serving.forget_peak()
    witness.forget()
    with witness.at_work():
        witness.wait()
        yield serving
        assert serving.process.poll() is None, serving.log[-3000:]
        witness.wait()
    assert witness.faults == []
    growth = serving.peak_bytes - calm_bytes
    print(f"grew by {growth / MIB:.1f} MiB; slowest answers {witness.slowest}")
    assert growth < GROWTH_MAX
    assert all(witness.slowest[kind] < most for kind, most in SLOWEST_S.items()), witness.slowest
    assert "Traceback" not in serving.log, serving.log[-3000:]


SOURCES = (f"127.0.{high}.{low}" for high in range(1, 255) for low in range(1, 255))


@pytest.fixture
def source() -> str:
    """A separate address: the log reports a reason once per address and minute."""
    return next(SOURCES)


@pytest.fixture
def client(broker: Serving, source: str) -> Iterator[WireClient]:
    with WireClient(broker.kafka, timeout=60, source=source) as made:
        yield made
