"""Whether a restored directory is what its backup says: every file is read once more, by the check
of `appliance log verify`, and records are counted."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from appliance.backup.errors import RestoreFailed
from appliance.backup.manifest import Manifest, PartitionCopy
from appliance.data_dir import log_files, log_verify, promised_offsets


def prove(data_dir: Path, manifest: Manifest, on_bytes: Callable[[int], None]) -> None:
    """Of a whole restore; raises where it is not."""
    promised = promised_offsets.read(data_dir)
    if promised.fault:
        raise RestoreFailed(f"{data_dir}: {promised.fault}")
    files = {(each.topic, each.partition): each for each in log_files.partitions(data_dir)}
    for each in manifest.partitions:
        if each.topic in manifest.gone:
            continue
        if each.key not in files:
            raise RestoreFailed(f"{each.name}: it is not in the restored directory")
        own = promised.logs.get(each.name)
        if own is None or (own.log_start, own.end) != (each.start, each.end):
            told = "none" if own is None else f"{own.log_start} to {own.end}"
            raise RestoreFailed(
                f"{each.name}: offsets are {told}, wanted {each.start} to {each.end}"
            )
        for finding in log_verify.verify(files[each.key], own, on_bytes):
            raise RestoreFailed(f"{each.name}: {finding}")
        count(files[each.key], each)


def count(files: log_files.Partition, wanted: PartitionCopy) -> None:
    batches = (batch for segment in files.segments for batch in log_files.batches(segment))
    records = sum(each.check().records_count for each in batches)
    if records != wanted.records:
        raise RestoreFailed(f"{wanted.name}: got {records} records, wanted {wanted.records}")
