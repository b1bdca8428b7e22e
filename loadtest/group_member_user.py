"""A member of a consumer group: joins, reads its assignment, commits, and joins again after every
change of the group. Every `--group-size` of them are a group."""

from __future__ import annotations

import time
from contextlib import suppress

from locust import task

from appliance.client.errors import BrokerRefused
from appliance.errors import ApplianceError
from appliance.record import _batch
from loadtest import broker, tally
from loadtest.broker import Wish
from loadtest.group_member import REJOIN, Member
from loadtest.user import BrokerUser

HEARTBEAT_S = 3.0
COMMIT_S = 1.0
IDLE_S = 0.5  # of a member without partitions
PAUSE_S = 1.0


class GroupMemberUser(BrokerUser):
    weight = 10

    def on_start(self) -> None:
        super().on_start()
        group = f"{self.options.topic}-group-{self.index // self.options.group_size}"
        self.member = Member(group, self.topic, self.partitions)
        self.wish = Wish(
            self.options.fetch_min_bytes, self.options.fetch_wait_ms, self.options.fetch_bytes
        )
        self.offsets: dict[int, int] = {}
        self.turn, self.heartbeat_at, self.commit_at = 0, 0.0, 0.0
        self.dirty: set[int] = set()

    def on_stop(self) -> None:
        if self.member.generation >= 0:
            with suppress(ApplianceError):  # the group notices later by itself
                self.member.leave(self.link.connection)
        super().on_stop()

    @task
    def live(self) -> None:
        begin = time.monotonic()
        try:
            if self.member.generation < 0:
                self.enter()
            self.read()
            self.keep_up()
        except BrokerRefused as error:
            if error.code in REJOIN:
                self.member.forget(error.code)
                return
            self.failed(tally.COMMIT, time.monotonic() - begin, error)
            time.sleep(PAUSE_S)
        except ApplianceError as error:
            self.failed(tally.COMMIT, time.monotonic() - begin, error)
            time.sleep(PAUSE_S)

    def enter(self) -> None:
        begin = time.monotonic()
        mine = self.link.ask(self.member.enter)
        self.done(tally.REBALANCE, time.monotonic() - begin, 0, 0)
        self.heartbeat_at = time.monotonic() + HEARTBEAT_S
        self.dirty.clear()
        self.offsets = {}
        found = self.link.ask(lambda to: self.member.committed(to, mine)) if mine else {}
        for partition in mine:
            offset = found.get(partition, -1)
            self.offsets[partition] = offset if offset >= 0 else self.end_of(partition)

    def end_of(self, partition: int) -> int:
        place = (self.topic, partition)
        return self.link.ask(lambda to: broker.offset_at(to, place, broker.LATEST))

    def read(self) -> None:
        """Fetches one partition; all of them take turns."""
        if not self.offsets:
            time.sleep(IDLE_S)
            return
        partition = sorted(self.offsets)[self.turn % len(self.offsets)]
        self.turn += 1
        begin, offset, place = time.monotonic(), self.offsets[partition], (self.topic, partition)
        fetched = self.link.ask(lambda to: broker.fetch(to, place, offset, self.wish))
        batches = _batch.headers(fetched.records, partial_tail=True)
        if batches:
            self.offsets[partition] = batches[-1].last_offset + 1
            self.dirty.add(partition)
            records = sum(each.records_count for each in batches)
            self.done(tally.FETCH, time.monotonic() - begin, records, len(fetched.records))

    def keep_up(self) -> None:
        now = time.monotonic()
        if now >= self.heartbeat_at:
            self.link.ask(self.member.heartbeat)
            self.heartbeat_at = now + HEARTBEAT_S
        if self.dirty and now >= self.commit_at:
            offsets = {partition: self.offsets[partition] for partition in self.dirty}
            self.link.ask(lambda to: self.member.commit(to, offsets))
            self.done(tally.COMMIT, time.monotonic() - now, 0, 0)
            self.dirty.clear()
            self.commit_at = now + COMMIT_S
