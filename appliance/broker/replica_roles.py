"""Who leads each partition that this broker has: told to its log, and to who fetches from leaders.

The cluster's word is a state in ZooKeeper; a log leads only in an election that named this broker's
present life. By the broker's own clock the session may be over before ZooKeeper says so: from that
moment on nothing is led here, until it is known to go on.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from appliance._log import Log
from appliance.broker.followers_traffic import AS_FOLLOWER, AS_LEADER, is_slow
from appliance.data_dir.partition_names import Key
from appliance.errors import ApplianceError, NotLeader
from appliance.process import event_log
from appliance.topics.empty_replicas import is_hollow
from appliance.topics.topic import Topic
from appliance.topics.topics import Topics

if TYPE_CHECKING:
    from appliance.cluster.cluster import Cluster
    from appliance.cluster.forms import PartitionState

events = event_log.named("replication")

NOBODY = -1
AGAIN_S = 5.0  # between two tries of what a log refused, as for want of a descriptor


class Fetchers(Protocol):
    """Who fetches from leaders, for the logs that follow."""

    def follow(self, key: Key, topic_id: bytes, log: Log, leader: int, unclean: int = -1) -> None:
        """`unclean`: the epoch of the last unclean election."""
        ...

    def stop(self, key: Key) -> None: ...

    def stop_topic(self, name: str) -> None: ...


class UncleanWin(NamedTuple):
    """An election by which this broker leads without what only others had."""

    key: Key
    epoch: int
    end_offset: int  # of its log then


class Coordinators(Protocol):
    """Who coordinates what stands in a partition that is led here. May be told again."""

    def on_led(self, partition: int, epoch: int) -> None: ...

    def on_resigned(self, partition: int) -> None: ...


class ReplicaRoles:
    """A table of topics: it is told of each log, also of one that was opened again."""

    def __init__(
        self, topics: Topics, fetchers: Fetchers, coordinators: Mapping[str, Coordinators]
    ) -> None:
        """`coordinators` by the topic whose partitions they follow."""
        self.cluster: Cluster | None = None  # not joined yet
        self.is_paused = False  # the session may be over
        self.may_lead = True  # False: it is not known yet who may do what here
        self.is_ending = False  # others are to lead
        self.elections = 0  # that this broker won
        self.unclean_wins: list[UncleanWin] = []  # that nobody has taken yet
        self.hollow: set[Key] = set()  # to begin anew before they follow
        self.refused: dict[Key, str] = {}  # whose logs refused what was elected last, and why
        self._topics = topics
        self._fetchers = fetchers
        self._coordinators = coordinators
        self._led: dict[Key, Log] = {}
        self._proposed: dict[Key, tuple[int, set[int]]] = {}  # for which epoch, and whom
        self._unclean: dict[Key, int] = {}  # the epoch of the last such election
        self._again_at = 0.0  # of time.monotonic()

    def may_lead_now(self) -> None:
        if not self.may_lead:
            self.may_lead = True
            self.apply_all()

    def led(self) -> list[tuple[Key, Log]]:
        return [*self._led.items()]

    def end_leading(self) -> None:
        """Before a stop: nothing more is taken here, whatever is led from now on: an election may
        come, or the session was in doubt and goes on."""
        self.is_ending = True
        for log in self._led.values():
            with suppress(NotLeader):
                log.end_leading()

    def to_hand_over(self) -> list[tuple[Key, Log]]:
        """What this broker leads by the cluster's word, so that others may be elected for what they
        have of it: also while the session is in doubt, and nothing is led here."""
        cluster, found = self.cluster, []
        assert cluster is not None
        for key, state in cluster.states.items():
            if cluster.leads(key) and (len(state.isr) > 1 or self.proposed(key)):
                log = self._topics.served_log(*key)
                if log is not None:
                    found.append((key, log))
        return found

    # Who is to join the ISR. From the proposal on the log waits for them: also when it leads again
    # after a doubt of the session, for ZooKeeper may have taken what was on its way before.

    def propose(self, key: Key, joining: set[int]) -> set[int]:
        """Those that were not proposed before. What became of these nobody may know."""
        log = self._led.get(key)
        if log is None:
            return set()
        before = self.proposed(key)
        self._proposed[key] = (log.election, before | joining)
        self.apply([key])
        return joining - before

    def withdraw(self, key: Key, nodes: set[int]) -> None:
        """Of these ZooKeeper was not told."""
        epoch, before = self._proposed.get(key, (NOBODY, set()))
        if left := before - nodes:
            self._proposed[key] = (epoch, left)
        else:
            self.settle(key)
        self.apply([key])

    def settle(self, key: Key) -> None:
        """The outcome is known, and the cluster's state has it."""
        self._proposed.pop(key, None)

    def proposed(self, key: Key) -> set[int]:
        """In the election of now."""
        epoch, nodes = self._proposed.get(key, (NOBODY, set()))
        state = None if self.cluster is None else self.cluster.states.get(key)
        return nodes if state is not None and state.leader_epoch == epoch else set()

    # Told of topics

    def put_topic(
        self,
        name: str,
        topic_id: bytes,
        logs: Sequence[Log | None],
        is_internal: bool,
        mirror_source: str,
        leaders: Sequence[tuple[int, int] | None] = (),
    ) -> None:
        topic = self._topics.get(name)
        if topic is not None and topic.is_replicated:
            self.apply([(name, number) for number in range(len(topic.logs))])

    def remove_topic(self, name: str) -> None:
        for key in [each for each in self._led if each[0] == name]:
            del self._led[key]
            if name in self._coordinators:
                self._tell_coordinators(key)
        of_each: tuple[dict[Key, Any], ...] = (self._unclean, self._proposed, self.refused)
        for of_keys in of_each:
            for key in [each for each in of_keys if each[0] == name]:
                del of_keys[key]
        self.hollow -= {key for key in self.hollow if key[0] == name}
        self._fetchers.stop_topic(name)

    # Told by the cluster

    def apply(self, keys: Iterable[Key]) -> None:
        for key in keys:
            topic = self._topics.get(key[0])
            if topic is None or not topic.is_replicated:
                self.refused.pop(key, None)
                continue
            log = self._topics.served_log(*key)
            if log is None:
                self._forget(key)
                continue
            try:
                self._apply(key, topic, log)
                self.refused.pop(key, None)
            except ApplianceError as error:
                self._refuse(key, log, str(error))
                self._fetchers.stop(key)
            if key[0] in self._coordinators:
                self._tell_coordinators(key)

    def _refuse(self, key: Key, log: Log, why: str) -> None:
        if self.refused.get(key) != why:
            events.error("an election cannot be followed", partition=log.name, error=why)
        self.refused[key] = why

    def _try_again(self) -> None:
        now_s = time.monotonic()
        if self.refused and now_s >= self._again_at:
            self._again_at = now_s + AGAIN_S
            self.apply([*self.refused])

    def _forget(self, key: Key) -> None:
        """It is not here, or not any more, or not open."""
        was_led = self._led.pop(key, None) is not None
        self._proposed.pop(key, None)
        self.refused.pop(key, None)
        self._fetchers.stop(key)
        if was_led and key[0] in self._coordinators:
            self._tell_coordinators(key)

    def _tell_coordinators(self, key: Key) -> None:
        log, coordinator = self._led.get(key), self._coordinators[key[0]]
        if log is None:
            coordinator.on_resigned(key[1])
        else:
            coordinator.on_led(key[1], log.election)

    def apply_all(self) -> None:
        self.apply([
            (topic.name, number)
            for topic in self._topics.values() if topic.is_replicated
            for number in range(len(topic.logs))
        ])  # fmt: skip

    def _apply(self, key: Key, topic: Topic, log: Log) -> None:
        log.hold()
        if self.cluster is not None:
            us, number = self.cluster.member.node_id, key[1]
            log.go_slowly(is_slow(topic.configs, AS_LEADER, number, us),
                          is_slow(topic.configs, AS_FOLLOWER, number, us))  # fmt: skip
        self._led.pop(key, None)
        cluster = self.cluster
        state = self._state(key, topic) if self._may_follow(key) else None
        if state is None or cluster is None:
            self._rest(key, log)
        elif cluster.member.node_id not in cluster.topics[key[0]].partitions[key[1]]:
            # Before it hears of the next election: by a fetch in that one, of what is deleted next,
            # it could come into the ISR, should it be wanted again by now.
            self._fetchers.stop(key)
            log.follow(state.leader_epoch, _other(state.leader, cluster.member.node_id))
        elif cluster.leads(key) and self.may_lead:
            self._fetchers.stop(key)
            self._lead(key, log, state)
        elif state.leader in (NOBODY, cluster.member.node_id):
            log.follow(state.leader_epoch, NOBODY)
            self._fetchers.stop(key)
        elif is_hollow(log) or key in self.hollow:
            self._fetchers.stop(key)
            log.follow(state.leader_epoch, state.leader)
            self.hollow.add(key)
        else:
            log.follow(state.leader_epoch, state.leader)
            us = cluster.member.node_id
            self._fetchers.follow(key, topic.id.bytes, log, state.leader, unclean_for(us, state))

    def _may_follow(self, key: Key) -> bool:
        """What the cluster said last."""
        return self.cluster is not None and (not self.is_paused or self.is_alone(key))

    def is_alone(self, key: Key) -> bool:
        """Nobody else has the partition, or is to have it: only a person's unclean election could
        give it to somebody, so it is led on while ZooKeeper is away (rule 6)."""
        assert self.cluster is not None
        us, known = self.cluster.member.node_id, self.cluster.topics.get(key[0])
        state = self.cluster.states.get(key)
        if known is None or state is None or len(known.partitions) <= key[1]:
            return False
        is_moved = key[1] in known.adding or key[1] in known.removing
        return known.partitions[key[1]] == state.isr == (us,) and not is_moved

    def _state(self, key: Key, topic: Topic) -> PartitionState | None:
        """None: nothing is known of this topic's, which another may have the name of."""
        assert self.cluster is not None
        known = self.cluster.topics.get(topic.name)
        if known is None or uuid.UUID(bytes=known.topic_id) != topic.id:
            return None
        return self.cluster.states.get(key)

    def _rest(self, key: Key, log: Log) -> None:
        """It goes on following whom it follows: that harms nobody, and a leader whose epoch is over
        refuses it."""
        if log.role == "leader":
            log.follow(log.election, NOBODY)
            self._fetchers.stop(key)

    def _lead(self, key: Key, log: Log, state: PartitionState) -> None:
        assert self.cluster is not None
        us, known = self.cluster.member.node_id, self.cluster.topics[key[0]]
        others = [each for each in known.partitions[key[1]] if each != us]
        in_sync = [each for each in state.isr if each != us]
        least = self.cluster.least_in_sync(*key)
        if state.eligible:
            # Too few were in sync when that was written. Nothing counts before ZooKeeper has it
            # that they are enough, whatever the setting says by now.
            least = max(least, len(state.isr) + 1)
        joining = sorted(self.proposed(key))
        if log.role != "leader" or log.election != state.leader_epoch:
            self._note_unclean(key, log, state)
            log.lead(state.leader_epoch, us, others, in_sync, least, joining, self.is_ending)
            self.hollow.discard(key)  # nobody else has more
            self.elections += 1
            events.info("leads", partition=log.name, epoch=state.leader_epoch, isr=[*state.isr])
        log.set_others(state.leader_epoch, others)
        log.set_in_sync(state.leader_epoch, in_sync, joining, least)
        self._led[key] = log

    def _note_unclean(self, key: Key, log: Log, state: PartitionState) -> None:
        """Once: a pause ends with the same election."""
        epoch = state.leader_epoch
        if state.unclean == epoch != self._unclean.get(key):
            self._unclean[key] = epoch
            self.unclean_wins.append(UncleanWin(key, epoch, log.log_end_offset))

    # The session

    async def watch_session(self) -> None:
        """Stops leading at the moment at which the session may be over. It also tries again what a
        log refused."""
        while True:
            cluster = self.cluster
            left_s = 0.1
            if cluster is not None and cluster.session_ends_ns:
                left_s = (cluster.session_ends_ns - time.monotonic_ns()) / 1e9
            is_over = cluster is not None and left_s <= 0
            if is_over != self.is_paused and cluster is not None:
                self.is_paused = is_over
                if is_over:
                    events.warning("the session with ZooKeeper may be over: nothing is led here "
                                   "that another broker has, too")  # fmt: skip
                self.apply_all()
            self._try_again()
            await asyncio.sleep(min(max(left_s, 0.02), 0.1))

    def lost(self, node: int) -> Collection[Key]:
        """What this broker should have by the cluster's word, and has not. What waits for room has
        all that counted."""
        assert self.cluster is not None
        found = []
        for name, known in self.cluster.topics.items():
            topic = self._topics.get(name)
            is_here = topic is not None and topic.id.bytes == known.topic_id
            for number, replicas in enumerate(known.partitions):
                log = self._topics.served_log(name, number) if is_here else None
                if node in replicas and (log is None or is_lost(log)):
                    found.append((name, number))
        return found


def is_lost(log: Log) -> bool:
    return log.failed is not None and not log.waits_for_room


def _other(leader: int, us: int) -> int:
    return NOBODY if leader == us else leader


def unclean_for(us: int, state: PartitionState) -> int:
    """Who is in sync has what the leader has since then: nothing of its own is told as lost, and an
    empty log of it begins where it should."""
    return NOBODY if us in (*state.isr, *state.eligible) else state.unclean
