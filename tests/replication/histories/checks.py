"""The checks at the end of a history, when all faults are over. A list is what a key's records are,
in their order; the names of what can be wrong with it are Elle's."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping

from tests.replication.histories.ledger import NEVER, Anomalies, Append, Ledger
from tests.replication.histories.producers import KINDS
from tests.replication.histories.site import Partition

Lists = Mapping[Partition, Mapping[int, str]]  # by offset


def check(ledger: Ledger, final: Lists, kinds: Mapping[str, str], may_lose: bool) -> int:
    """`kinds`: of producers. `may_lose`: a leader may have died with what acks=1 was told. Returns
    how many of these were lost."""
    anomalies = ledger.anomalies
    for partition, found in final.items():
        values = [found[offset] for offset in sorted(found)]
        if len(values) != max(found, default=-1) + 1:
            anomalies.add("gap", f"{len(values)} records up to {max(found)} of {partition}")
        what_was_seen_stays(anomalies, partition, ledger.seen[partition], found)
        own = [each for each in ledger.appends.values() if each.partition == partition]
        _times(anomalies, partition, values, own, kinds)
        _order(anomalies, partition, values, own, kinds)
    return _lost(ledger, final, kinds, may_lose)


def _lost(ledger: Ledger, final: Lists, kinds: Mapping[str, str], may_lose: bool) -> int:
    there = {partition: {*found.values()} for partition, found in final.items()}
    lost_by_leaders = 0
    for value, each in ledger.appends.items():
        if each.acked_s == NEVER or value in there[each.partition]:
            continue
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
) -> None:
    """What was sent once is there once, unless its producer may have tried twice."""
    known = {f"{each.producer}:{each.number}" for each in own}
    for value, times in Counter(values).items():
        if value not in known:
            anomalies.add("never sent", f"{value} at {partition}")
        elif times > 1 and KINDS[kinds[value.split(":")[0]]].get("enable.idempotence"):
            anomalies.add("duplicate", f"{value} {times} times at {partition}")


def _order(
    anomalies: Anomalies,
    partition: Partition,
    values: list[str],
    own: Iterable[Append],
    kinds: Mapping[str, str],
) -> None:
    _producers_order(anomalies, partition, values, kinds)
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
    anomalies: Anomalies, partition: Partition, values: list[str], kinds: Mapping[str, str]
) -> None:
    last: dict[str, int] = defaultdict(lambda: -1)
    for value in values:
        name, _, number = value.partition(":")
        if kinds.get(name) != "idempotent":
            continue
        if int(number) < last[name]:
            anomalies.add("out of order", f"{value} follows {last[name]} at {partition}")
        last[name] = int(number)
