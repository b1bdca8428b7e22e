"""One share group (KIP-932): who is in it, and who reads which partition.

No clock, no I/O, as in `modern_group.py`, which has most of it. A partition may have many readers,
so nobody has to give it up before another may have it: a member is at once where its target is.

A partition is given out only when it has a state of the group, which says where it begins. Whatever
members want and has none gets it first, and a heartbeat waits for that:

    wanted -> initializing (on disk) -> `initialize` -> initialized -> a new epoch gives it out

What could not be initialized is tried again at the next heartbeat. An administrator may change or
delete the states of a group without members; who joins meanwhile waits in the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar
from uuid import UUID

from appliance.errors import ApplianceError
from appliance.groups import share_records as records
from appliance.groups.consumer_member import JOINING, Beat, Beaten, ConsumerMember
from appliance.groups.handover import NOWHERE, Assignment, Places
from appliance.groups.modern_group import Done
from appliance.groups.partitions_group import PartitionsGroup, Records
from appliance.groups.share_records import ShareState, StoredShareGroup
from appliance.groups.states import ConsumerState, GroupRefused
from appliance.protocol import ErrorCode
from appliance.share.assignor import assign_simple

STATE_BYTES = 1024  # of a partition's state, in memory and in the log, when nothing is in flight

# Makes the state of partitions, in the epoch that is given; tells which of them have it now.
Initialize = Callable[[Places, int, Callable[[Places], None]], None]


@dataclass
class ShareGroup(PartitionsGroup):
    KIND: ClassVar[str] = "share"
    RECORDS: ClassVar[Records] = records

    initialize: Initialize = field(kw_only=True)
    on_silence: Callable[[str], None] = field(kw_only=True)  # a member has timed out
    shared: ShareState = field(default_factory=ShareState)
    _missing: Places = NOWHERE  # wanted, and without a state
    _is_busy: bool = False  # states are being made, changed or deleted
    _beats: list[Callable[[], None]] = field(default_factory=list)  # wait for that

    @property
    def weight(self) -> int:
        return super().weight + STATE_BYTES * len(self.shared.initialized)

    @property
    def state(self) -> ConsumerState:
        if self.is_dead:
            return ConsumerState.DEAD
        return ConsumerState.STABLE if self.members else ConsumerState.EMPTY

    @property
    def assignor(self) -> str:
        return self.terms().assignors[0]

    # ShareGroupHeartbeat

    def heartbeat(self, asked: Beat, now_ms: int, answer: Callable[[Beaten], None]) -> None:
        try:
            if asked.epoch < JOINING:
                self._leave(asked, answer)
            else:
                self._beat(asked, now_ms, answer)
        except GroupRefused as error:
            answer(_refusal(error))

    def _leave(self, asked: Beat, answer: Callable[[Beaten], None]) -> None:
        self._forget(self._known(asked.member_id))
        self._is_stale = True
        self._refresh()

        def stored(error: ApplianceError | None) -> None:
            left = Beaten(member_id=asked.member_id, epoch=asked.epoch)
            answer(_refusal(error) if error else left)

        self._save(stored)

    def _beat(self, asked: Beat, now_ms: int, answer: Callable[[Beaten], None]) -> None:
        member = self._joining(asked) if asked.epoch == JOINING else self._known(asked.member_id)
        if asked.epoch != JOINING:
            self._check_epoch(member, asked.epoch, has_own_only=True)
        had = member.now.assigned if asked.epoch == member.now.epoch else None
        self._hear(member, member.subscription.after(asked))
        self._refresh()
        self._touch(member, now_ms)
        self._initialize_missing()
        if self._is_busy:
            self._beats.append(lambda: self._answer(asked, had, answer))
        else:
            self._answer(asked, had, answer)

    def _answer(
        self, asked: Beat, had: Places | None, answer: Callable[[Beaten], None]
    ) -> None:
        try:
            member = self._known(asked.member_id)
        except GroupRefused as error:  # it left, or timed out, while it waited
            answer(_refusal(error))
            return
        self._reconcile(member, None, 0)
        is_told = asked.epoch == JOINING or asked.topics is not None or had != member.now.assigned
        beaten = Beaten(
            member_id=member.id,
            epoch=member.now.epoch,
            heartbeat_interval_ms=self.terms().heartbeat_interval_ms,
            assigned=member.now.assigned if is_told else None,
        )
        self._save(lambda error: answer(_refusal(error) if error else beaten))

    def _joining(self, asked: Beat) -> ConsumerMember:
        """New, or known and begins again: it was fenced, or its answer was lost."""
        known = self.members.get(asked.member_id)
        self._check_size(known is not None)
        return known or ConsumerMember(asked.member_id)

    def _known(self, member_id: str) -> ConsumerMember:
        member = self.members.get(member_id)
        if member is None:
            raise GroupRefused(
                ErrorCode.UNKNOWN_MEMBER_ID, f"group {self.id} has no member {member_id!r}"
            )
        return member

    def _remove(self, members: Iterable[ConsumerMember]) -> None:
        """The silent ones. Whoever leaves says itself what becomes of its records, also later."""
        gone = list(members)
        super()._remove(gone)
        for each in gone:
            self.on_silence(each.id)

    def _reconcile(self, member: ConsumerMember, owned: Places | None, now_ms: int) -> None:
        now, target = member.now, self.targets.get(member.id, NOWHERE)
        if (now.epoch, now.assigned) != (self.target_epoch, target):
            self._set(member, Assignment(self.target_epoch, now.epoch, assigned=target))

    # Who reads what

    def _new_targets(
        self, wanted: Mapping[str, frozenset[UUID]], counts: Mapping[UUID, int]
    ) -> dict[str, Places]:
        there = frozenset((topic, i) for topic, count in counts.items() for i in range(count))
        self._missing = there - self.shared.initialized
        return assign_simple(wanted, there & self.shared.initialized, self.targets)

    def _initialize_missing(self) -> None:
        missing = self._missing
        if not missing or self._is_busy:
            return
        self._is_busy = True
        self._share(self.shared.began(missing))

        def written(error: ApplianceError | None) -> None:
            if error is None:
                self.initialize(missing, self.epoch, self._initialized)
            else:
                self._initialized(NOWHERE)

        self._save(written)

    def _initialized(self, made: Places) -> None:
        if made:
            self._share(self.shared.made(made))
        self._is_busy = False
        if made and self.members:
            self._is_stale = True
            self._refresh()
        self._answer_all()
        if self._pending:  # nobody waited
            self._save(lambda error: None)

    def _answer_all(self) -> None:
        beats, self._beats = self._beats, []
        for each in beats:
            each()

    def _share(self, state: ShareState) -> None:
        if state != self.shared:
            self.shared = state
            self._put(records.state_record(self.id, state, self.topics.topic_name))

    # AlterShareGroupOffsets, DeleteShareGroupOffsets, DeleteGroups

    def begin_change(self, note: Callable[[ShareState], ShareState], done: Done) -> None:
        """Of the states of its partitions; until `end_change` nobody is told what to read."""
        self.check_empty()
        self._is_busy = True
        if not self.epoch:  # nobody was here before
            self.epoch = 1
            self._put(records.epoch_record(self.id, self.epoch, self.metadata_hash))
        self._share(note(self.shared))
        self._save(done)

    def end_change(self, note: Callable[[ShareState], ShareState], done: Done) -> None:
        self._share(note(self.shared))
        self._is_busy = False
        if self.members:
            self._is_stale = True
            self._refresh()
            self._initialize_missing()
        self._save(done)
        if not self._is_busy:
            self._answer_all()

    @property
    def is_idle(self) -> bool:
        """Nobody is there, and nothing of it is being changed."""
        return self.is_empty and not self._is_busy

    def check_empty(self) -> None:
        if self.members or self._is_busy:
            raise GroupRefused(
                ErrorCode.NON_EMPTY_GROUP,
                f"group {self.id} is {self.state.value} with {len(self.members)} members"
                f"{', and its offsets are being changed' if self._is_busy else ''}",
            )

    def delete(self) -> None:
        self.check_empty()
        self.is_dead = True

    def forget_topics(self, topic_ids: Collection[UUID]) -> None:
        """They are no more; what has their state goes with them."""
        self._share(self.shared.lost({*topic_ids}))
        self._save(lambda error: None)  # what failed is written with the next

    # A start

    def restore(self, stored: StoredShareGroup, now_ms: int) -> None:
        self.shared = stored.state
        self._restore(stored, now_ms)
        name_of = self.topics.topic_name
        # whoever comes first tries again
        self._missing = frozenset(each for each in self.shared.initializing if name_of(each[0]))


def _refusal(error: ApplianceError) -> Beaten:
    return Beaten(error.kafka_code, str(error))
