"""The brokers of a run: each starts before its first case, stops after its last one, and restarts
after a case that killed it."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from bench.peers.brokers import (
    Appliance,
    Broker,
    DurableFloor,
    Floor,
    FloorBroker,
    FloorOfStart,
    Kafka,
    Mock,
    Nobody,
)
from bench.peers.clusters import Appliances, Kafkas
from bench.peers.other_protocol_brokers import Nats, Redis
from bench.peers.rabbitmq import RabbitMQ

Settings = Mapping[str, str]
Key = tuple[str, tuple[tuple[str, str], ...]]
PEERS: dict[str, Callable[[Path, Settings], Broker]] = {
    "appliance": Appliance,
    "kafka": Kafka,
    Appliances.name: Appliances,
    Kafkas.name: Kafkas,
    "mock": Mock,  # librdkafka's, in the client
    "floor": Floor,  # reads, writes, answers
    DurableFloor.name: DurableFloor,
    FloorBroker.name: FloorBroker,  # the same for real clients
    FloorOfStart.name: FloorOfStart,
    "nats": Nats,
    "redis": Redis,
    "rabbitmq": RabbitMQ,
    "1 GB of log": Nobody,  # our broker with a small log
}


def key_of(name: str, settings: Settings) -> Key:
    return name, tuple(sorted(settings.items()))


class Running:
    """A context manager: at its end all processes and files of the brokers are gone."""

    def __init__(self, directory: Path | None) -> None:
        self._root = Path(tempfile.mkdtemp(dir=directory, prefix="side-by-side-"))
        self._brokers: dict[Key, Broker] = {}
        self._made = 0
        self.resident_mb: dict[str, float] = {}  # the peak by broker, with default settings

    def __enter__(self) -> Running:
        return self

    def __exit__(self, *_: object) -> None:
        failed = self.keep(())
        shutil.rmtree(self._root)
        if failed:
            raise RuntimeError(f"some brokers did not stop: {failed}")

    def broker(self, name: str, settings: Settings) -> Broker:
        key = key_of(name, settings)
        broker = self._brokers.get(key)
        if broker is None:
            self._made += 1
            broker = PEERS[name](self._root / f"{name}-{self._made}", settings)
            self._brokers[key] = broker
        elif not broker.is_alive():
            broker.start()
        return broker

    def keep(self, wanted: Iterable[Key]) -> dict[str, str]:
        """Stops all other brokers. Returns the errors of the stops."""
        failed = {}
        for key in self._brokers.keys() - set(wanted):
            broker = self._brokers.pop(key)
            try:
                self._stop(key, broker)
            except Exception as error:  # noqa: BLE001 - returned to the caller
                failed[f"the stop of {broker.name}"] = f"{type(error).__name__}: {error}"
        return failed

    def _stop(self, key: Key, broker: Broker) -> None:
        if broker.has_process and broker.is_alive() and not key[1]:
            peak = max(broker.peak_of_run, broker.peak_resident_bytes())
            self.resident_mb[key[0]] = peak / 1e6
        if broker.is_alive():
            broker.stop()
        shutil.rmtree(broker.directory, ignore_errors=True)
