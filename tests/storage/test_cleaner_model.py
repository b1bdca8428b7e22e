"""Any writes, rounds of compaction and restarts: a plain-Python model says what may be left."""

from __future__ import annotations

import tempfile
from typing import Any

from hypothesis import HealthCheck, example, given
from hypothesis import settings as examples
from hypothesis import strategies as st

from appliance._log import Log
from appliance.data_dir.log_dir import LogDir
from appliance.record import _batch_builder
from tests.support.compaction_model import Model, Written
from tests.support.logs import NOW, STORAGE, end_txn, log_config, reopened

RETENTION_MS = 1000
CONFIG = {
    "cleanup_policy": "compact",
    "min_cleanable_dirty_ratio": 0.0,
    "delete_retention_ms": RETENTION_MS,
    "segment_bytes": 600,
    "index_interval_bytes": 100,
}

keys = st.integers(0, 5)
values = st.one_of(st.none(), st.binary(max_size=40), st.just(b"x" * 120))
records = st.lists(st.tuples(keys, values, st.integers(-9, 9)), min_size=1, max_size=4)
codecs = st.integers(0, 4)
writers = st.sampled_from([None, 1, 2])
operations = st.one_of(
    st.tuples(st.just("write"), records, codecs, writers),
    st.tuples(st.just("write"), records, codecs, writers),
    st.tuples(st.just("txn"), records, codecs, st.sampled_from(["commit", "abort"])),
    st.tuples(st.just("roll")),
    st.tuples(st.just("compact"), st.integers(0, 1500), st.sampled_from([1 << 20, 1, 3])),
    st.tuples(st.just("restart"), st.booleans()),
)


class Player:
    """Plays the operations to a log and to the model."""

    def __init__(self, path: str) -> None:
        self.log_dir = LogDir.open(path, STORAGE)
        self.log = self.log_dir.create("t", 0, log_config(**CONFIG))
        self.model = Model(RETENTION_MS)
        self.now_ms = NOW
        self.sequences: dict[int, int] = {}

    def play(self, name: str, *given: Any) -> None:
        getattr(self, f"_{name}")(*given)

    def _write(self, records: Any, codec: int, writer: int | None) -> None:
        self._append(records, codec, writer)

    def _txn(self, records: Any, codec: int, kind: str) -> None:
        self._append(records, codec, 9, transactional=True, aborted=kind == "abort")
        self._append(records[:1], 0, 1)
        end_txn(self.log, kind, pid=9)

    def _append(
        self,
        records: Any,
        codec: int,
        writer: int | None,
        transactional: bool = False,
        aborted: bool = False,
    ) -> None:
        given: dict[str, Any] = {"codec": codec, "transactional": transactional}
        if writer is not None:
            sequence = self.sequences.get(writer, 0)
            given |= {"producer_id": writer, "producer_epoch": 0, "base_sequence": sequence}
            self.sequences[writer] = sequence + len(records)
        raw = [(NOW + late, b"%d" % key, value) for key, value, late in records]
        base = self.log.append(_batch_builder.batch(raw, **given)).base_offset
        for i, (timestamp, key, value) in enumerate(raw):
            self.model.written.append(Written(base + i, timestamp, key, value, aborted))

    def _roll(self) -> None:
        self.log.roll()

    def _compact(self, later_ms: int, keys_max: int) -> None:
        self.now_ms += later_ms
        self.log.flush()
        self.log_dir.checkpoint()
        active = self.log.segments()[-1].base_offset
        rounds = 0
        while self.log.compact(self.now_ms, keys_max=keys_max):
            rounds += 1
            assert rounds <= 1 + len(self.model.written)
            if keys_max >= 1 << 20:
                self.model.cleaned(active, self.now_ms)
        # Any number of rounds at one time come as far as one of them with room for all keys.
        self.model.cleaned(active, self.now_ms)
        self.model.check(self.log, self.now_ms)

    def _restart(self, cleanly: bool) -> None:
        self.log.flush()
        self.log_dir = reopened(self.log_dir, cleanly, **CONFIG)
        self.log = self.log_dir.log("t", 0)
        assert self.log_dir.report.losses == []
        assert not self.log.holes()
        self.model.check(self.log, self.now_ms)
        self._check_sequences(self.log)

    def _check_sequences(self, log: Log) -> None:
        known = {each.producer_id: each.last_sequence for each in log.producers()}
        assert known == {pid: next_one - 1 for pid, next_one in self.sequences.items()}


one = [(0, b"1", 0)]
other = [(1, b"1", 0)]
gone = [(0, None, 0)]


@examples(max_examples=80, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(operations, max_size=25))
@example(
    [("txn", other, 0, "abort"), ("txn", other, 0, "commit"), ("roll",)]
    + [("compact", 1500, 1 << 20), ("write", one, 0, None), ("roll",)] * 4
    + [("restart", False)]
)
@example([("write", one, 0, None), ("write", gone, 4, 1), ("roll",), ("compact", 0, 1)])
def test_what_is_left_is_what_the_model_allows(plan: list[tuple[Any, ...]]) -> None:
    with tempfile.TemporaryDirectory() as path:
        player = Player(path)
        for each in plan:
            player.play(*each)
        player.play("roll")
        player.play("compact", 0, 1 << 20)
        player.log_dir.abandon()
