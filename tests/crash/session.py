"""One recorded life of the engine, with its acts and promises as notes in one trace.

A `do` note comes before an act and a `did` note after its return, so a reader knows the requested
acts and the promises at every cut.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from appliance.config import LogConfig, StorageConfig
from appliance.data_dir.log_dir import LogDir
from appliance.data_dir.partition_creation import NewPartitions
from appliance.errors import ApplianceError
from appliance.record import _batch, _batch_builder

from .trace import Recorder

START_MS = 1_700_000_000_000
# Small segments, so that rolls happen; no timers, so that the scenario determines the trace.
SMALL = LogConfig(
    segment_bytes=2048,
    index_interval_bytes=256,
    flush_ms=3_600_000,
    retention_ms=-1,
    producer_id_expiration_ms=1 << 40,
)
STORAGE = StorageConfig(
    checkpoint_interval_ms=3_600_000,
    reserve_bytes=0,
    low_water_bytes=0,
    sync="files",
    sync_threads=2,
    recovery_threads=1,
    sealed_files_idle_ms=3_600_000,
)

BY_SIZE = replace(SMALL, retention_bytes=3000)
BY_TIME = replace(SMALL, retention_ms=60_000)
COMPACT = replace(
    SMALL,
    segment_bytes=1024,
    cleanup_policy="compact",
    min_cleanable_dirty_ratio=0.0,
    delete_retention_ms=1000,
)
CONFIGS = {"size": BY_SIZE, "time": BY_TIME, "i": BY_SIZE, "k": COMPACT}  # by topic


def config_of(topic: str, _partition: int) -> LogConfig:
    return CONFIGS.get(topic, SMALL)


def name_of(topic: str, partition: int) -> str:
    return f"{topic}-{partition}"


class Session:
    """One life of the engine; every act notes its name and its result."""

    def __init__(self, root: Path, life: int) -> None:
        self.root = root
        self.life = life
        self.recorder = Recorder()
        self.act_id = 0
        self.value_id = 0
        self.dir: Any = None
        self.asked: dict[str, Any] = {}  # the current act
        self.wait_seconds = 30.0

    def note(self, **facts: Any) -> None:
        self.asked = facts if "do" in facts else {}
        self.recorder.note(facts)

    def attempt(self, act: Callable[[], Any]) -> ApplianceError | OSError | None:
        """An act that may fail; after a failure its result is unknown."""
        self.asked = {}
        try:
            act()
        except (ApplianceError, OSError) as error:
            asked = self.asked
            if asked and asked["do"] != "open":
                self.note(did="fail", what=asked.pop("do"), **asked)
            return error
        return None

    # ---- the directory ----

    def open(self, storage: StorageConfig = STORAGE) -> None:
        self.note(do="open")
        self.dir = LogDir.open(self.root, config=storage, log_config=config_of)
        self.note(did="open", logs=self.ends())

    def ends(self) -> dict[str, list[int]]:
        return {
            name_of(*key): [log.log_start_offset, log.log_end_offset, log.high_watermark]
            for key, log in self.dir.logs().items()
        }

    def create(self, topic: str, partition: int = 0) -> Any:
        self.note(do="create", log=name_of(topic, partition))
        log = self.dir.create(topic, partition, config_of(topic, partition))
        self.note(did="create", log=name_of(topic, partition))
        return log

    def create_new(self, *topics: str, partitions: int) -> list[Any]:
        """Several topics together."""
        batch = [NewPartitions(topic, range(partitions), SMALL) for topic in topics]
        names = [name for new in batch for name in new.names.values()]
        for name in names:
            self.note(do="create", log=name)
        self.dir.create_new(batch)
        for name in names:
            self.note(did="create", log=name)
        return [new.logs[number] for new in batch for number in new.numbers]

    def delete(self, topic: str, partition: int = 0) -> None:
        self.note(do="delete", log=name_of(topic, partition))
        self.dir.delete(topic, partition)
        self.note(did="delete", log=name_of(topic, partition))

    def checkpoint(self) -> None:
        self.note(do="checkpoint")
        self.dir.checkpoint()
        self.note(did="checkpoint")

    def close(self) -> None:
        self.note(do="close")
        self.dir.close()
        self.note(did="close")

    # ---- one log ----

    def log(self, topic: str, partition: int = 0) -> Any:
        return self.dir.log(topic, partition)

    def append(
        self, log: Any, batch: bytes, *, durable: bool = True, origin: str = "client"
    ) -> Any:
        act_id = self.begin_append(log, batch)
        appended = log.append(batch, origin=origin)
        self.end_append(log, act_id, appended.base_offset, appended.last_offset, appended.duplicate)
        if durable:
            self.wait(log, appended.last_offset)
        return appended

    def begin_append(self, log: Any, batch: bytes) -> int:
        self.act_id += 1
        name = name_of(log.topic, log.partition)
        self.asked = {"do": "append", "id": self.act_id, "life": self.life, "log": name}
        self.recorder.note(self.asked | {"end": log.log_end_offset}, batch)
        return self.act_id

    def end_append(
        self, log: Any, act_id: int, base: int, last: int, duplicate: bool = False
    ) -> None:
        self.note(
            did="append",
            id=act_id,
            life=self.life,
            log=name_of(log.topic, log.partition),
            base=base,
            last=last,
            duplicate=duplicate,
        )
        self.see(log)

    def see(self, log: Any) -> None:
        """Notes the records that consumers could read by now, which must stay."""
        self.note(did="durable", log=name_of(log.topic, log.partition), end=log.high_watermark)

    def wait(self, log: Any, offset: int | None = None) -> None:
        last = log.log_end_offset - 1 if offset is None else offset
        log.await_durable(last, self.wait_seconds)
        self.waited(log, last)

    def waited(self, log: Any, last: int) -> None:
        self.note(did="durable", log=name_of(log.topic, log.partition), end=last + 1)
        self.see(log)

    def change(self, what: str, log: Any, act: Callable[[], Any], **facts: Any) -> Any:
        """An act that may remove records; notes the remaining ones."""
        name = name_of(log.topic, log.partition)
        self.note(do=what, log=name, end=log.log_end_offset, **facts)
        result = act()
        self.note(did=what, log=name, start=log.log_start_offset, offsets=offsets_of(log), **facts)
        return result

    def records(
        self,
        count: int = 2,
        size: int = 120,
        key: str | None = None,
        codec: str = "none",
        **more: Any,
    ) -> bytes:
        """A batch of records that no other batch has."""
        made = []
        for _ in range(count):
            self.value_id += 1
            value = f"{self.life}.{self.value_id} ".encode() * (size // 16 + 1)
            made.append(
                (START_MS + self.value_id, (key or f"k{self.value_id}").encode(), value[:size])
            )
        return _batch_builder.batch(made, codec=codec, **more)


def read_batches(log: Any, up_to: str = "end") -> list[bytes]:
    """Every batch from the log start, with all bytes."""
    found: list[bytes] = []
    offset = log.log_start_offset
    while True:
        data = log.read(offset, 1 << 20, up_to=up_to)
        if not data:
            return found
        view = memoryview(data)
        for info in _batch.headers(data):
            found.append(bytes(view[info.position : info.position + info.size]))
            offset = info.last_offset + 1


def offsets_of(log: Any) -> list[int]:
    return [record.offset for batch in read_batches(log) for record in _batch.records(batch)]
