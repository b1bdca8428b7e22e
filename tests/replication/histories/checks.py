"""The checks at the end of a history, when all faults are over. A list is what a key's records are,
in their order; the names of what can be wrong with it are Elle's.

librdkafka gives up the sequence of a producer when a batch is refused and the next one, which was
on its way already, is out of order: it begins another epoch and sends again what it has no answer
for, though some of that is there. No broker can know it again. So copies of a record by one
producer count as one where each was sent in another epoch.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from appliance.record import _batch
from tests.replication.histories.ledger import NEVER, Anomalies, Append, Ledger
from tests.replication.histories.producers import KINDS
from tests.replication.histories.site import Partition

Lists = Mapping[Partition, Mapping[int, str]]  # by offset
Epochs = Mapping[str, Sequence[int]]  # of its producer, by value: one for each copy


def nothing(partition: Partition) -> Epochs:
    return {}


def check(
    ledger: Ledger,
    final: Lists,
    kinds: Mapping[str, str],
    may_lose: bool,
    epochs_of: Callable[[Partition], Epochs] = nothing,
) -> int:
    """`kinds`: of producers. `may_lose`: a leader may have died with what acks=1 was told. Returns
    how many of these were lost. `epochs_of` looks into the files, where there are duplicates."""
    anomalies = ledger.anomalies
    for partition, found in final.items():
        values = [found[offset] for offset in sorted(found)]
        if len(values) != max(found, default=-1) + 1:
            anomalies.add("gap", f"{len(values)} records up to {max(found)} of {partition}")
        what_was_seen_stays(anomalies, partition, ledger.seen[partition], found)
        own = [each for each in ledger.appends.values() if each.partition == partition]
        twice = [each for each, times in Counter(values).items() if times > 1]
        epochs = epochs_of(partition) if twice else {}
        again = {each for each in twice if _has_epochs(values.count(each), epochs.get(each, ()))}
        _times(anomalies, partition, values, own, kinds, again)
        _order(anomalies, partition, values, own, kinds, again)
    return _lost(ledger, final, kinds, may_lose)


def _has_epochs(times: int, epochs: Sequence[int]) -> bool:
    return times == len(epochs) == len({*epochs})


def _lost(ledger: Ledger, final: Lists, kinds: Mapping[str, str], may_lose: bool) -> int:
    there = {partition: {*found.values()} for partition, found in final.items()}
    lost_by_leaders = 0
    for value, each in ledger.appends.items():
        if each.acked_s == NEVER or value in there.get(each.partition, (value,)):
            continue  # or nobody could read the partition, which is told
        is_excused = kinds[each.producer] == "leader" and may_lose
        if is_excused:
            lost_by_leaders += 1
        else:
            ledger.anomalies.add("lost", f"{value} at {each.partition} {each.offset}")
    return lost_by_leaders


def what_was_seen_stays(
    anomalies: Anomalies, partition: Partition, seen: Mapping[int, str], final: Mapping[int, str]
) -> None:
    for offset, value in seen.items():
        if final.get(offset) != value:
            anomalies.add("gone", f"{value} was seen at {partition} {offset}, there is "
                                  f"{final.get(offset, 'nothing')}")  # fmt: skip


def _times(
    anomalies: Anomalies,
    partition: Partition,
    values: list[str],
    own: Iterable[Append],
    kinds: Mapping[str, str],
    again: Collection[str],
) -> None:
    """What was sent once is there once, unless its producer may have tried twice."""
    known = {f"{each.producer}:{each.number}" for each in own}
    for value, times in Counter(values).items():
        if value not in known:
            anomalies.add("never sent", f"{value} at {partition}")
            continue
        is_idempotent = KINDS[kinds[value.split(":")[0]]].get("enable.idempotence")
        if times > 1 and is_idempotent and value not in again:
            anomalies.add("duplicate", f"{value} {times} times at {partition}")


def _order(
    anomalies: Anomalies,
    partition: Partition,
    values: list[str],
    own: Iterable[Append],
    kinds: Mapping[str, str],
    again: Collection[str],
) -> None:
    _producers_order(anomalies, partition, values, kinds, again)
    acked = sorted(
        (each for each in own
         if each.acked_s != NEVER and each.offset >= 0 and kinds[each.producer] != "leader"),
        key=lambda each: -each.offset,
    )  # fmt: skip
    first = None  # of those behind, who was acknowledged first
    for each in acked:
        if first and first.acked_s < each.sent_s:
            anomalies.add("real time", f"{each.producer}:{each.number} at {partition} "
                          f"{each.offset} was sent after {first.producer}:{first.number} at "
                          f"{first.offset} was acknowledged")  # fmt: skip
        if first is None or each.acked_s < first.acked_s:
            first = each


def _producers_order(
    anomalies: Anomalies,
    partition: Partition,
    values: list[str],
    kinds: Mapping[str, str],
    again: Collection[str],
) -> None:
    last: dict[str, int] = defaultdict(lambda: -1)
    for value in values:
        name, _, number = value.partition(":")
        if kinds.get(name) != "idempotent" or value in again:
            continue
        if int(number) < last[name]:
            anomalies.add("out of order", f"{value} follows {last[name]} at {partition}")
        last[name] = int(number)


def epochs_in(data: bytes) -> dict[str, list[int]]:
    """In the files of a partition."""
    found: dict[str, list[int]] = defaultdict(list)
    for info in _batch.headers(data):
        for record in _batch.records(data[info.position : info.position + info.size]):
            found[(record.value or b"").decode()].append(info.producer_epoch)
    return found
