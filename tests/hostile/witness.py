"""A well-behaved client during attacks: it must keep getting its responses."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator

from appliance.protocol.messages.metadata import MetadataRequest, MetadataResponse
from appliance.record import _batch_builder
from appliance.record._records import Record
from tests.support.doors import Address, Door, door_to
from tests.support.wire_client import WireClient, frame_of

TOPIC = "witness"
PAUSE_S = 0.005  # the load of a small client; the attacker has the rest of the machine
METADATA = 3


def batch(text: bytes = b"value", count: int = 1) -> bytes:
    now = time.time_ns() // 1_000_000
    return bytes(_batch_builder.batch([Record(now, b"key", text) for _ in range(count)]))


class Load:
    """Threads that work until they are closed, and rest between the tests that want them: what has
    one broker for all tests would otherwise load those of other rooms as well."""

    def __init__(self) -> None:
        self._works, self._is_over = threading.Event(), threading.Event()
        self._works.set()
        self._threads: list[threading.Thread] = []

    def start(self, work: Callable[..., None], *arguments: object) -> None:
        self._threads.append(threading.Thread(target=work, args=arguments))
        self._threads[-1].start()

    def goes_on(self) -> bool:
        """After a pause, or a rest; False at the end."""
        self._works.wait()
        return not self._is_over.wait(PAUSE_S)

    @contextlib.contextmanager
    def at_work(self) -> Iterator[None]:
        self._works.set()
        yield
        self._works.clear()

    def close(self) -> None:
        self._is_over.set()
        self._works.set()
        for each in self._threads:
            each.join()


class Witness(Load):
    """Two threads: one writes and reads back, one sends requests to the control plane.

    An attack may cost memory, but must not delay other clients: `waits` has the time of each
    response in seconds."""

    def __init__(self, place: Door | Address, topic: str = TOPIC) -> None:
        super().__init__()
        self._door = door_to(place)
        self._topic = topic
        self.answers = {"data": 0, "control": 0}
        self.waits: dict[str, list[float]] = {"data": [], "control": []}
        self.faults: list[str] = []
        with self._door.open() as client:
            client.create_topic(topic)
        self.start(self._run, "data", self._write_and_read)
        self.start(self._run, "control", self._ask)

    def forget(self) -> None:
        self.waits = {"data": [], "control": []}

    @property
    def slowest(self) -> dict[str, float]:
        """The longest wait of each kind."""
        return {kind: max(waits, default=0.0) for kind, waits in self.waits.items()}

    def wait(self) -> None:
        """Waits for one more response of each kind."""
        before, end = dict(self.answers), time.monotonic() + 20
        while any(self.answers[kind] == before[kind] for kind in before) and not self.faults:
            assert time.monotonic() < end, f"no answer since 20 s, after {before}"
            time.sleep(0.002)

    def _run(self, kind: str, work: Callable[[WireClient], None]) -> None:
        try:
            with self._door.open() as client:
                while self.goes_on():
                    begin = time.monotonic()
                    work(client)
                    self.waits[kind].append(time.monotonic() - begin)
                    self.answers[kind] += 1
        except (OSError, EOFError, AssertionError) as fault:
            self.faults.append(f"{kind}: {fault!r}")

    def _write_and_read(self, client: WireClient) -> None:
        text = b"%d" % self.answers["data"]
        (part,) = client.produce(batch(text), topic=self._topic, acks=-1)
        assert part.error_code == 0, part
        found = client.fetch_one(part.base_offset, topic=self._topic)
        assert found.error_code == 0, found
        assert text in found.records, found

    def _ask(self, client: WireClient) -> None:
        row = MetadataRequest.MetadataRequestTopic(name=self._topic)
        client.send(frame_of(MetadataRequest(topics=[row]), METADATA, 9))
        (found,) = client.answer(MetadataResponse, METADATA, 9).topics
        assert found.error_code == 0, found


def ends(client: WireClient) -> bool:
    """Whether the broker closes this connection without another response."""
    with contextlib.suppress(EOFError, ConnectionError):
        return not client.receive()
    return True
