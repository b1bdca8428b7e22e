"""One round: a fresh cluster, its workloads under a schedule of faults, its healing, its checks."""

from __future__ import annotations

import os
import time
import traceback
from collections import Counter
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from tests.replication.histories import checks, internal_topics, transfers
from tests.replication.histories.ensemble import ZooKeepers
from tests.replication.histories.faults import Faults
from tests.replication.histories.groups import PROTOCOLS, Group
from tests.replication.histories.ledger import NEVER, Ledger
from tests.replication.histories.moving import Moving
from tests.replication.histories.network import Network
from tests.replication.histories.producers import Appending
from tests.replication.histories.readers import Asking, Following, Scanning
from tests.replication.histories.schedule import BROKERS, Fault
from tests.replication.histories.site import Partition, Site, site, until
from tests.replication.histories.topics import MadeAndDeleted
from tests.replication.histories.transfers import Transferring

PARTITIONS = 4
PRODUCERS = {"i1": "idempotent", "i2": "idempotent", "i3": "idempotent", "a1": "all", "a2": "all",
             "l1": "leader"}  # fmt: skip
HAS_TRANSFERS = bool(int(os.environ.get("HISTORY_TRANSFERS", "1")))
HAS_MOVES = bool(int(os.environ.get("HISTORY_MOVES", "0")))
HEALED_S = 180.0
SOME_HEALED_S = 60.0  # where something is wrong already, only so that the rest can be read
GROUPS_S = 90.0  # more than twice a member's session, on a machine with much to do
SCANS_MAX = 3  # of a partition at the end, on a machine with much to do
Final = dict[Partition, dict[int, str]]
HARMLESS = {"stop", "stops ahead", "clock", "slow", "ZooKeeper killed", "ZooKeeper paused",
            "cut from one ZooKeeper"}  # fmt: skip


@dataclass
class Result:
    seed: int
    seconds: float
    faults: Counter[str] = field(default_factory=Counter)
    acked: Counter[str] = field(default_factory=Counter)
    refused: int = 0
    lost_by_leaders: int = 0
    scans: int = 0
    commits: int = 0
    transfers: int = 0  # committed
    moves: int = 0  # of partitions
    topics: int = 0  # made or deleted
    hung: int = 0  # clients that stood still by themselves
    healed_s: float = 0.0
    counts: Mapping[str, int] = field(default_factory=dict)
    words: str = ""
    told: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        faults = ", ".join(f"{count} {kind}" for kind, count in sorted(self.faults.items()))
        acked = ", ".join(f"{count} {kind}" for kind, count in sorted(self.acked.items()))
        hung = f", {self.hung} clients hung" if self.hung else ""
        return (
            f"seed {self.seed}, {self.seconds:.0f} s: {sum(self.acked.values())} acknowledged "
            f"({acked}; {self.lost_by_leaders} of acks=1 lost with leaders, {self.refused} refused)"
            f", {self.scans} scans, {self.commits} commits, {self.transfers} "
            f"transfers, {self.moves} moves, {self.topics} topics "
            f"made or deleted{hung}; faults: {faults}; healed in "
            f"{self.healed_s:.1f} s; anomalies: {dict(self.counts) or 'none'}"
        )


def play(
    seed: int,
    seconds: float,
    planned: list[Fault],
    network: Network,
    zookeepers: ZooKeepers,
    folder: Path,
    session_ms: int,
    mutant: str = "",
) -> Result:
    """A round that cannot be played leaves no clients: who holds the exception would hold them, and
    what they have not sent yet would come into the next one."""
    try:
        return _round(seed, seconds, planned, network, zookeepers, folder, session_ms, mutant)
    except BaseException as error:
        traceback.clear_frames(error.__traceback__)
        raise


def _round(
    seed: int,
    seconds: float,
    planned: list[Fault],
    network: Network,
    zookeepers: ZooKeepers,
    folder: Path,
    session_ms: int,
    mutant: str,
) -> Result:
    root = f"/histories/{folder.name}-{time.time_ns()}"
    result, ledger = Result(seed, seconds), Ledger()
    with site(network, zookeepers, root, folder, session_ms, mutant) as cluster:
        wrong = cluster.until_in_sync(time.monotonic() + HEALED_S)
        assert not wrong, wrong
        cluster.create("log", PARTITIONS, min_insync_replicas="2", retention_ms="-1")
        cluster.create(transfers.TOPIC, transfers.ACCOUNTS, min_insync_replicas="2")
        internal_topics.make(cluster, "log")
        wrong = cluster.until_in_sync(time.monotonic() + HEALED_S)
        assert not wrong, wrong
        with ExitStack() as stack:
            _play(seed, seconds, planned, cluster, ledger, result, stack)
    result.counts, result.words = dict(ledger.anomalies.counts), str(ledger.anomalies)
    return result


def _play(
    seed: int,
    seconds: float,
    planned: list[Fault],
    cluster: Site,
    ledger: Ledger,
    result: Result,
    stack: ExitStack,
) -> None:
    producers = [Appending(cluster, ledger, kind, name, PARTITIONS)
                 for name, kind in PRODUCERS.items()]  # fmt: skip
    for each in producers:
        stack.callback(each.end)
    followers = [Following(cluster, ledger, f"f{each}", PARTITIONS) for each in range(2)]
    groups = [Group(cluster, ledger, protocol, seed) for protocol in PROTOCOLS]
    scanning = Scanning(cluster, ledger, seed, PARTITIONS)
    for follower in followers:
        stack.callback(follower.end)
    for group in groups:
        stack.callback(group.end)
    stack.callback(scanning.end)
    stack.callback(Asking(cluster, ledger, seed, PARTITIONS).end)
    tellers: list[Transferring] = []
    if HAS_TRANSFERS:
        accounts = Following(cluster, ledger, "accounts", transfers.ACCOUNTS, transfers.TOPIC)
        stack.callback(accounts.end)
        tellers += [Transferring(cluster, ledger, f"teller-{each}", seed) for each in range(2)]
    for teller in tellers:
        stack.callback(teller.end)
    moving = Moving(cluster, seed, PARTITIONS) if HAS_MOVES else None
    if moving:
        stack.callback(moving.end)
    topics = MadeAndDeleted(cluster, ledger, seed)
    stack.callback(topics.end)
    faults = Faults(cluster, planned)
    faults.run(seconds)
    result.faults, result.told = faults.done, faults.told
    began = time.monotonic()
    topics.end()
    if moving:
        moving.end()
    _heal(cluster, ledger, topics, moving, result)
    for teller in tellers:
        teller.end()
    _settle(cluster, ledger, producers, scanning)
    result.healed_s = time.monotonic() - began
    final = _final(ledger, scanning, "log", PARTITIONS)
    result.transfers = _balance(ledger, scanning, tellers)
    _follow_to_the_end(ledger, followers, groups, final)
    result.hung = sum(each.hung for each in followers)
    may_lose = not {*faults.done} <= HARMLESS
    result.lost_by_leaders = checks.check(
        ledger, final, PRODUCERS, may_lose,
        lambda partition: checks.epochs_in(cluster.files(BROKERS[0], partition)),
    )  # fmt: skip
    # Who lags is found out only when it has lagged for replica.lag.time.max.ms.
    if wrong := cluster.until_in_sync(time.monotonic()):
        ledger.anomalies.add("fell behind", wrong)
    _compare_replicas(cluster, ledger)
    for machine in cluster.machines.values():
        for words in machine.wrong:
            ledger.anomalies.add("broker", words)
    _count(result, ledger, groups, scanning)
    result.topics = topics.changes


def _heal(
    cluster: Site, ledger: Ledger, topics: MadeAndDeleted, moving: Moving | None, result: Result
) -> None:
    is_wrong = bool(ledger.anomalies.counts)
    wrong = cluster.heal(SOME_HEALED_S if is_wrong else HEALED_S)
    if wrong and not is_wrong:
        ledger.anomalies.add("not healed", wrong)
    if moving and not moving.bring_home(HEALED_S):
        ledger.anomalies.add("stuck", "partitions that were moved are not where they belong")
    result.moves = moving.moves if moving else 0
    is_right = until(lambda: not topics.wrong(), _patience_s(ledger, GROUPS_S))
    if not (is_right or wrong):
        ledger.anomalies.add("topics", topics.wrong())


def _settle(
    cluster: Site, ledger: Ledger, producers: list[Appending], scanning: Scanning
) -> None:
    for each in producers:
        each.end()
    for each in producers:
        if each.fatal:
            ledger.anomalies.add("fatal", f"{each.name}: {each.fatal}")
    end = time.monotonic() + _patience_s(ledger, HEALED_S)
    for each in producers:
        if left := each.flush(max(1.0, end - time.monotonic())):
            ledger.anomalies.add("stuck", f"{left} records of {each.name}")
    scanning.end()


def _patience_s(ledger: Ledger, wanted_s: float) -> float:
    """Where something is wrong already, what else is will not be waited for."""
    return 5.0 if ledger.anomalies.counts else wanted_s


def _final(ledger: Ledger, scanning: Scanning, topic: str, partitions: int) -> Final:
    found = {}
    scanning.until_still([(topic, number) for number in range(partitions)])
    for number in range(partitions):
        scans = (scanning.scan((topic, number)) for _ in range(SCANS_MAX))
        values = next((each for each in scans if each is not None), None)
        if values is None:  # nothing is known of it, so nothing else is said of it
            ledger.anomalies.add("stuck", f"{topic}-{number} cannot be read to its end")
        else:
            found[topic, number] = values
    return found


def _balance(ledger: Ledger, scanning: Scanning, tellers: list[Transferring]) -> int:
    final = _final(ledger, scanning, transfers.TOPIC, transfers.ACCOUNTS)
    for partition, values in final.items():
        checks.what_was_seen_stays(ledger.anomalies, partition, ledger.seen[partition], values)
    made = {name: each for teller in tellers for name, each in teller.transfers.items()}
    if len(final) < transfers.ACCOUNTS:
        return 0
    return transfers.check(ledger.anomalies, made, [each.values() for each in final.values()])


def _follow_to_the_end(
    ledger: Ledger,
    followers: list[Following],
    groups: list[Group],
    final: Final,
) -> None:
    ends = {number: len(values) for (_, number), values in final.items()}
    for follower in followers:
        def is_there(follower: Following = follower) -> bool:
            return {each: follower.positions[each] for each in ends} == ends

        if not until(is_there, _patience_s(ledger, GROUPS_S)):
            behind = [each for each in ends if follower.positions[each] != ends[each]]
            ledger.anomalies.add("stuck", f"{follower.name} is at {follower.positions}, not "
                                          f"{ends}: {follower.state(behind)}")  # fmt: skip
    for group in groups:
        if not until(partial(group.has_all, ends), _patience_s(ledger, GROUPS_S)):
            ledger.anomalies.add("stuck", f"{group.name} lacks {group.left(ends)} at the end")
        elif missed := group.passed_over(ends):
            ledger.anomalies.add("passed over", f"{group.name}: {missed}")


def _compare_replicas(cluster: Site, ledger: Ledger) -> None:
    """Nothing is sent any more: the whole logs are the same, byte by byte."""
    for partition, names in cluster.partitions().items():
        def is_same(partition: Partition = partition, names: list[str] = names) -> bool:
            return len({cluster.files(each, partition) for each in names}) == 1

        if not until(is_same, 10.0):
            sizes = {each: len(cluster.files(each, partition)) for each in names}
            ledger.anomalies.add("replicas differ", f"{partition}: bytes {sizes}")


def _count(result: Result, ledger: Ledger, groups: list[Group], scanning: Scanning) -> None:
    for each in ledger.appends.values():
        if each.acked_s != NEVER:
            result.acked[PRODUCERS[each.producer]] += 1
        elif each.error:
            result.refused += 1
    result.scans = scanning.scans
    result.commits = sum(each.commits for each in groups)
