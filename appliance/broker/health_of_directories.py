"""What health says of the directories of records: offline, full, failing, hanging, unproven."""

from __future__ import annotations

from collections.abc import Iterator

from appliance.broker.broker import Broker
from appliance.broker.finding import Finding, Level, first_of
from appliance.data_dir.log_dir import LogDir
from appliance.data_dir.partition_names import directory_name
from appliance.data_dir.record_dirs import HANGS_S
from appliance.process.spoken import disk_full, duration, size, some


def of_storage(broker: Broker) -> Iterator[Finding]:
    for each in broker.log_dir.directories:
        where = broker.log_dir.in_words(each)
        if each.logs is None:
            away = some(broker.log_dir.count_in(each), "partition")
            text = f"{each.path} is offline, and its {away} with it: {each.why}"
            yield Finding("failing", "storage", text, str(each.path))
            continue
        for level, text in of_room(each.logs):
            yield Finding(level, "storage", f"{where}{text}")
        if each.doubt:
            text = f"{each.path}: nothing new goes there, as a write to it failed: {each.doubt}"
            yield Finding("failing", "storage", text)


def of_moves(broker: Broker) -> Iterator[Finding]:
    failed = [
        f"{directory_name(*key)} cannot be moved to {each.target.path} yet: {each.why}"
        for key, each in broker.moves.under_way.items()
        if each.why
    ]
    yield from first_of("degraded", "storage", failed, "moves to another directory failed")


def of_room(logs: LogDir) -> Iterator[tuple[Level, str]]:
    if logs.journal_failed:
        yield "failing", "recovery points cannot be saved: a start after a crash would take long"
    free, low_water = logs.free_bytes, logs.config.low_water_bytes
    room = f"{size(free)} free, and below {size(low_water)} writes are refused"
    if logs.is_full:
        yield "failing", disk_full(free, low_water)
    elif free < 2 * low_water:
        yield "degraded", f"the disk is nearly full: {room}"


def of_syncs(broker: Broker) -> Iterator[Finding]:
    log_dir = broker.log_dir
    for each in log_dir.directories:
        if each.logs is not None:
            syncs = each.logs.syncs
            if not syncs.is_accepted(log_dir.config.file_system_accepted):
                text = f"{log_dir.in_words(each)}{syncs.text}"
                yield Finding("degraded", "file system", text)


def of_hanging_syncs(broker: Broker) -> Iterator[Finding]:
    """A disk that never answers fails nothing: whoever asks it waits."""
    for each in broker.log_dir.directories:
        sync_s = 0.0 if each.logs is None else each.logs.hangs_s
        if sync_s > HANGS_S:
            text = f"a sync has not ended for {duration(sync_s)}: nothing is acknowledged meanwhile"
            yield Finding("failing", "storage", f"{broker.log_dir.in_words(each)}{text}")
