"""A log whose records come from another one, with their offsets."""

from __future__ import annotations

from pathlib import Path

import pytest

from appliance.errors import (
    BatchCorrupt,
    BatchInvalid,
    BatchTorn,
    LogMirrored,
    OffsetOutOfRange,
)
from appliance.record import _batch, _batch_builder, _mirror_batches
from tests.support.batch_model import retained, stamped
from tests.support.logs import (
    NOW,
    bases,
    batch,
    log_config,
    marker,
    one_log,
    opened,
    produced,
    reopened,
    values,
)

MIRROR = {"mirror_source": "cluster/topic"}


def test_many_batches_are_appended_at_the_offsets_that_they_have(tmp_path: Path) -> None:
    data = _mirror_batches.gap(0, 5) + batch("a", "b", base_offset=5) + batch("c", base_offset=7)
    with one_log(tmp_path, **MIRROR) as log:
        assert log.append_mirrored(data) == (0, 7, -1, False)
        log.flush()
        assert bases(log.read(0)) == [0, 5, 7]
        assert values(log.read(0)) == ["a", "b", "c"]
        assert log.log_end_offset == 8


def test_what_is_here_already_is_passed_over(tmp_path: Path) -> None:
    first, second = batch("a", "b", base_offset=0), batch("c", base_offset=2)
    with one_log(tmp_path, **MIRROR) as log:
        log.append_mirrored(first)
        assert log.append_mirrored(first).duplicate
        assert log.append_mirrored(first + second) == (0, 2, -1, False)
        log.flush()
        assert values(log.read(0)) == ["a", "b", "c"]


@pytest.mark.parametrize("offset", [1, 3, 4, 100])
def test_a_gap_and_an_overlap_are_refused_with_the_log_end(offset: int, tmp_path: Path) -> None:
    with one_log(tmp_path, **MIRROR) as log:
        log.append_mirrored(batch("a", "b", base_offset=0))
        with pytest.raises(OffsetOutOfRange, match="log end 2"):
            log.append_mirrored(batch("c", "d", base_offset=offset))
        assert log.log_end_offset == 2


def test_what_stands_before_a_refused_batch_stays(tmp_path: Path) -> None:
    damaged = bytearray(batch("b", base_offset=1))
    damaged[-1] ^= 1
    with one_log(tmp_path, **MIRROR) as log:
        with pytest.raises(BatchCorrupt):
            log.append_mirrored(batch("a", base_offset=0) + bytes(damaged))
        log.flush()
        assert values(log.read(0)) == ["a"]


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (b"", BatchTorn),
        (batch("a")[:-1], BatchTorn),
        (produced(0), BatchInvalid),
        (produced(0, txn=True), BatchInvalid),
        (marker("commit"), BatchInvalid),
    ],
)
def test_what_means_something_in_its_own_cluster_only_is_refused(
    data: bytes, error: type, tmp_path: Path
) -> None:
    with one_log(tmp_path, **MIRROR) as log:
        with pytest.raises(error):
            log.append_mirrored(data)
        assert log.log_end_offset == 0


def test_nobody_else_writes_to_it_and_a_mirror_nowhere_else(tmp_path: Path) -> None:
    with one_log(tmp_path / "mirror", **MIRROR) as log:
        for data, origin in ((batch("a"), "client"), (batch("a"), "unverified"),
                             (marker("commit"), "coordinator")):
            with pytest.raises(LogMirrored):
                log.append(data, origin=origin)
        assert log.log_end_offset == 0
        log.configure(log_config())
        assert log.append(batch("a")).base_offset == 0
    with one_log(tmp_path / "plain") as log, pytest.raises(LogMirrored):
        log.append_mirrored(batch("a", base_offset=0))


def test_the_rules_for_clients_were_the_sources(tmp_path: Path) -> None:
    limits = {"max_message_bytes": 100, "message_timestamp_after_max_ms": 0,
              "cleanup_policy": "compact", "message_timestamp_type": "LogAppendTime", **MIRROR}
    data = _batch_builder.batch([(NOW * 2, None, b"x" * 500)], base_offset=0)
    with one_log(tmp_path, **limits) as log:
        log.append_mirrored(data)
        log.flush()
        (record,) = _batch.records(log.read(0))
        assert (record.timestamp, record.key) == (NOW * 2, None)


def test_a_compacted_batch_and_its_append_time_stay(tmp_path: Path) -> None:
    of_the_log = stamped(batch("a", "b", "c", base_offset=0), 0, 0, append_time_ms=5)
    data = retained(of_the_log, [0, 2])
    with one_log(tmp_path, **MIRROR) as log:
        log.append_mirrored(data)
        log.flush()
        found = _batch.records(log.read(0))
        assert [(each.offset, each.timestamp) for each in found] == [(0, 5), (2, 5)]


@pytest.mark.parametrize("cleanly", [True, False])
@pytest.mark.parametrize("start", [0, 5 * 10**9])
def test_it_is_there_after_a_restart(start: int, cleanly: bool, tmp_path: Path) -> None:
    """Nothing in the log is new to recovery, wherever the first record stands."""
    with opened(tmp_path, **MIRROR) as log_dir:
        log = log_dir.create("t", 0, log_config(**MIRROR))
        log.append_mirrored(_mirror_batches.gap(0, start) + batch("a", base_offset=start))
        gap = _mirror_batches.gap(start + 1, start + 9)
        log.append_mirrored(gap + batch("b", base_offset=start + 9))
        log.flush()
        log.delete_before(start)
        again = reopened(log_dir, cleanly, **MIRROR)
        log = again.log("t", 0)
        assert (log.log_start_offset, log.log_end_offset) == (start, start + 10)
        assert not again.report.losses
        assert again.report.cut_bytes == 0
        assert values(log.read(start)) == ["a", "b"]
        assert log.append_mirrored(batch("c", base_offset=start + 10)).last_offset == start + 10
        again.close()
