"""Random operations on the compiled log and on the plain-Python one: after each they must agree.

MODEL_EXAMPLES=<n> runs n sequences instead of the few that fit a test run; with CI set
the sequences are the same in every run.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
)

from appliance._log import Log
from appliance.data_dir.log_dir import LogDir
from appliance.errors import ApplianceError, OffsetOutOfRange
from appliance.record import _batch, _batch_builder
from tests.support.logs import (
    LONG,
    NOW,
    STORAGE,
    everything,
    log_config,
    marker,
    segment_bases,
    split,
)
from tests.support.model_log import ModelLog, last_offset

SEGMENT_BYTES = 900
SETTINGS: dict[str, Any] = {
    "segment_bytes": SEGMENT_BYTES,
    "index_interval_bytes": 150,
    "cleanup_policy": "compact,delete",
    "min_cleanable_dirty_ratio": 0.0,
}
PIDS = st.integers(0, 2)
EPOCHS = st.sampled_from([0, 0, 0, 0, 1, 2])
COUNTS = st.sampled_from([1, 1, 2, 3])
KEYS = st.integers(0, 5)
# Mostly the next sequence; a repeat, an old one, a gap now and then.
STEPS = st.sampled_from([0, 0, 0, 0, 0, 0, -1, -2, -7, 1, 5])
TIMES = st.integers(0, 1000)
FRACTIONS = st.floats(0, 1)


class LogAgainstModel(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.log_dir = self.open()
        self.log: Log = self.log_dir.create("t", 0, log_config(**SETTINGS))
        self.model = ModelLog(SEGMENT_BYTES)
        self.written = 0
        self.is_flushed = True

    def teardown(self) -> None:
        self.log_dir.abandon()
        self.folder.cleanup()

    def open(self) -> LogDir:
        config = log_config(**SETTINGS)
        return LogDir.open(Path(self.folder.name), STORAGE, log_config=lambda *_: config)

    # Operations

    def append(self, data: bytes, origin: str = "client") -> None:
        self.is_flushed = False
        assert self.outcome(data, origin) == self.model.append(data)

    def outcome(self, data: bytes, origin: str) -> tuple[int, int, bool] | type[ApplianceError]:
        try:
            appended = self.log.append(data, origin=origin)
        except ApplianceError as error:
            return type(error)
        return appended.base_offset, appended.last_offset, appended.duplicate

    def records(self, count: int, key: int, time: int) -> list[tuple[int, bytes, bytes]]:
        self.written += 1
        return [
            (NOW + time + i, b"k%d" % ((key + i) % 6), b"%d.%d" % (self.written, i))
            for i in range(count)
        ]

    @initialize(count=COUNTS, key=KEYS)
    def begin(self, count: int, key: int) -> None:
        self.append(_batch_builder.batch(self.records(count, key, 0)))

    @rule(count=COUNTS, key=KEYS, time=TIMES, codec=st.sampled_from([0, 0, 3]))
    def append_plain(self, count: int, key: int, time: int, codec: int) -> None:
        self.append(_batch_builder.batch(self.records(count, key, time), codec=codec))

    @rule(count=COUNTS, key=KEYS, time=TIMES, pid=PIDS, epoch=EPOCHS, step=STEPS, txn=st.booleans())
    def append_of_producer(self, count: int, key: int, time: int, pid: int, epoch: int, step: int,
                           txn: bool) -> None:  # fmt: skip
        known = self.model.producers.get(pid)
        sequence = known.batches[-1][0] + 1 if known and known.batches else 0
        if known and epoch > known.epoch:
            sequence = 0
        elif known:
            epoch = known.epoch - (epoch == 2 and known.epoch > 0)
        self.append(
            _batch_builder.batch(
                self.records(count, key, time),
                producer_id=pid,
                producer_epoch=epoch,
                base_sequence=max(0, sequence + step),
                transactional=txn,
            )
        )

    @rule(pid=PIDS, kind=st.sampled_from(["commit", "abort"]), bump=st.sampled_from([0, 0, 0, 1]),
          coordinator_epoch=st.sampled_from([1, 1, 1, 0]))  # fmt: skip
    def end_transaction(self, pid: int, kind: str, bump: int, coordinator_epoch: int) -> None:
        known = self.model.producers.get(pid)
        epoch = (known.epoch if known else 0) + bump
        self.append(marker(kind, pid, epoch, coordinator_epoch), "coordinator")

    @rule()
    def roll(self) -> None:
        self.log.roll()
        self.model.roll()
        self.is_flushed = False

    @rule()
    def flush(self) -> None:
        self.log.flush()
        self.is_flushed = True

    @rule()
    def checkpoint(self) -> None:
        self.flush()
        self.log_dir.checkpoint()
        self.model.checkpoint()

    @rule(back=st.integers(0, 8))
    def truncate(self, back: int) -> None:
        offset = max(self.model.start, self.model.end - back)
        self.log.truncate(offset)
        self.model.truncate(offset)

    @rule(share=FRACTIONS)
    def truncate_far(self, share: float) -> None:
        offset = self.model.start + int((self.model.end - self.model.start) * share)
        self.log.truncate(offset)
        self.model.truncate(offset)

    @rule(share=FRACTIONS)
    def delete_before(self, share: float) -> None:
        self.flush()
        offset = self.model.start + int((self.model.end - self.model.start) * share)
        self.log.delete_before(offset)
        self.model.delete_before(offset)

    @rule(size=st.integers(0, 4 * SEGMENT_BYTES))
    def retain_by_size(self, size: int) -> None:
        self.retain(size, -1, NOW)

    @rule(age=TIMES)
    def retain_by_time(self, age: int) -> None:
        self.retain(-1, age, NOW + 1000)

    def retain(self, size: int, age: int, now: int) -> None:
        self.flush()
        self.log.configure(log_config(**SETTINGS, retention_bytes=size, retention_ms=age))
        assert self.log.retain(now) == self.model.retain(size, age, now)
        self.log.configure(log_config(**SETTINGS))
        self.is_flushed = False

    @rule()
    def compact(self) -> None:
        self.flush()
        before = {record.offset: record for each in self.model.batches
                  for record in _batch.records(each)}  # fmt: skip
        self.log.compact(NOW)
        batches = self.everything_from_the_first_segment()
        after = {record.offset: record for each in batches for record in _batch.records(each)}
        for offset, record in before.items():
            assert after.get(offset, record) == record
        assert after.keys() - before.keys() <= set(range(self.model.start))
        latest = {record.key: offset for offset, record in sorted(before.items())
                  if not self.is_in_transaction(offset)}  # fmt: skip
        gone = {key for key, offset in latest.items() if offset not in after}
        newer = {after[offset].key for offset in after if self.is_in_transaction(offset)}
        assert gone <= newer, gone
        self.forget_transactions(batches)
        self.model.take_compacted(batches, segment_bases(self.log))

    def forget_transactions(self, batches: list[bytes]) -> None:
        """An aborted one is told to readers no longer only when no record of it is left."""
        model = self.model
        told = self.log.aborted_transactions(model.start, LONG)
        forgotten = {each for each in model.aborted if each[2] >= model.start} - {*told}
        for producer, first, marker_offset in forgotten:
            assert not [each for each in batches
                        if first <= last_offset(each) < marker_offset and _batch.records(each)
                        and _batch.headers(each)[0].producer_id == producer]  # fmt: skip
        model.aborted = [each for each in model.aborted if each not in forgotten]

    def is_in_transaction(self, offset: int) -> bool:
        for each in self.model.batches:
            if last_offset(each) >= offset:
                return _batch.headers(each)[0].is_transactional
        return False

    def everything_from_the_first_segment(self) -> list[bytes]:
        """Also what the log start hides: it may become visible to nobody, but counts as size."""
        found = []
        for segment in self.log.segments():
            found += split(Path(segment.path).read_bytes()[: segment.size])
        return found

    @rule(cleanly=st.booleans())
    def reopen(self, cleanly: bool) -> None:
        self.log_dir.close() if cleanly else self.log_dir.abandon()
        self.log_dir = self.open()
        self.log = self.log_dir.log("t", 0)
        self.model.reopen(cleanly)
        self.is_flushed = True
        assert self.log_dir.report.losses == self.log_dir.report.failures == []
        assert self.log_dir.report.cut_bytes == 0

    @rule()
    def rest(self) -> None:
        self.log.rest(0)

    # Looking

    @rule(share=FRACTIONS, max_bytes=st.integers(0, 2 * SEGMENT_BYTES))
    def read(self, share: float, max_bytes: int) -> None:
        offset = self.model.start + int((self.model.end - self.model.start) * share)
        assert self.log.read(offset, max_bytes, "end") == self.model.read(offset, max_bytes)

    @rule(beyond=st.integers(1, 9), below=st.booleans())
    def read_out_of_range(self, beyond: int, below: bool) -> None:
        offset = self.model.start - beyond if below else self.model.end + beyond
        try:
            self.log.read(offset, 100, "end")
        except OffsetOutOfRange:
            return
        raise AssertionError(f"read at {offset}")

    @rule(time=TIMES)
    def find_time(self, time: int) -> None:
        found = self.log.offset_for_timestamp(NOW + time, up_to="end")
        assert found == self.model.find_time(NOW + time)

    @invariant()
    def offsets_agree(self) -> None:
        log, model = self.log, self.model
        assert (log.log_start_offset, log.log_end_offset) == (model.start, model.end)
        assert (log.leader_epoch, log.failed, log.holes()) == (model.epoch, None, [])
        assert model.start <= log.durable_offset <= model.end
        if self.is_flushed:
            assert log.durable_offset == model.end
            assert log.last_stable_offset == model.first_open
        else:
            assert log.last_stable_offset <= model.first_open

    @invariant()
    def batches_agree(self) -> None:
        assert everything(self.log) == self.model.batches
        assert [(each.base_offset, each.size) for each in self.log.segments()] == [
            (each.base, each.size) for each in self.model.segments
        ]

    @invariant()
    def state_agrees(self) -> None:
        log, model = self.log, self.model
        found = {each.producer_id: (each.epoch, each.txn_first_offset) for each in log.producers()}
        known = model.producers.items()
        assert found == {pid: (each.epoch, each.txn_first) for pid, each in known}
        for epoch in range(model.epoch + 2):
            assert log.end_offset_for_epoch(epoch) == model.end_of_epoch(epoch)
        touching = [each for each in model.aborted if each[2] >= model.start]
        assert log.aborted_transactions(model.start, LONG) == touching


LogAgainstModel.TestCase.settings = settings(
    max_examples=int(os.environ.get("MODEL_EXAMPLES", "120")),
    stateful_step_count=40,
    deadline=None,
    derandomize="CI" in os.environ,
    report_multiple_bugs=False,
    suppress_health_check=list(HealthCheck),
)
TestTheCompiledLogAndTheModelAgree = LogAgainstModel.TestCase
