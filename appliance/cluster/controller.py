"""The controller: one of the brokers, whoever made the node first. It is made of what it reads, and
holds nothing that is not in ZooKeeper: a new one reads everything, and goes on.

A round looks at what there is to do, in this order, and each step can be repeated:

    requests     who is being stopped, which topics have more partitions
    deletions    begun by whomever
    new topics   their first states
    elections    where the leader's life is over; of who is being stopped; by a person's word; now
                 and then of preferred leaders
    moves        to other brokers, whose replicas are in sync
    replicas     more of them for topics that were made when fewer brokers lived
    the notice   all that has changed
    answers      to the requests

A watch wakes it. A write that was refused because another controller was elected ends its term. A
connection that was lost does not, as long as the session lasts: all is read, and told, again.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass

from kazoo.exceptions import KazooException

from appliance.cluster import paths, requests
from appliance.cluster.deletions import Deletions
from appliance.cluster.elections import Elections
from appliance.cluster.forms import FormUnknown, Reader
from appliance.cluster.growth import Growth
from appliance.cluster.lives import Lives
from appliance.cluster.membership import Membership
from appliance.cluster.reading import woken
from appliance.cluster.requests import LEAVE, PARTITIONS, UNCLEAN, Request
from appliance.cluster.session import AWAY, Change, Session
from appliance.cluster.table import merged
from appliance.cluster.term import Deposed, Term, elect_ourselves
from appliance.cluster.view import View
from appliance.errors import ApplianceError
from appliance.process import event_log

log = event_log.named("cluster")
NOTICES_MAX = 100
# Topics: a broker that has more than a hundred notices to read reads everything instead, and then
# nobody tells it that these were deleted.
DELETED_TOGETHER = 100
MINUTE_S = 60.0  # a notice is kept for one to two
AGAIN_S, AWAY_S = 1.0, 0.05
# Between two rounds that failed, and none was good: then it is told. One that failed is no news,
# the next comes a second later; and a ZooKeeper that elects its own leader is back by then.
FAILS_S = 5.0


@dataclass(frozen=True)
class Rebalance:
    """When preferred leaders lead again by themselves."""

    is_on: bool = True
    interval_s: float = 300.0
    percentage: int = 10  # of a broker's partitions may be led by others


class Controller:
    def __init__(
        self,
        session: Session,
        view: View,
        lives: Lives,
        membership: Membership,
        min_insync: Callable[[str, int], int],
        is_unclean: Callable[[str], bool],
        rebalance: Rebalance,
    ) -> None:
        self._session, self._view, self._node_id = session, view, lives.node_id
        self._lives, self._membership = lives, membership
        membership.readers.append(self.wake)
        self.elections = Elections(view, min_insync, is_unclean)
        self._growth = Growth(view, self.elections.untold)
        self._rebalance = rebalance
        self._next_rebalance = time.monotonic() + rebalance.interval_s
        self._deletions = Deletions(session, view.reading)
        self.term: Term | None = None
        self._term_session = 0
        self._is_everything = False  # more changed than is in `untold`
        self._told_leaving: dict[int, int] = {}
        self._told_ids: set[bytes] = set()  # of topics that the others have heard of in this term
        self._fault = ""  # of the last round; empty: it was a good one
        self._failed_first = self._failed_last = 0.0  # since then; of `time.monotonic`
        self._wake = asyncio.Event()
        self._kept_from = -1  # notices below were there a minute ago
        self._next_minute = time.monotonic() + MINUTE_S
        view.readers.append(self._wake)

    def wake(self) -> None:
        self._wake.set()

    @property
    def fault(self) -> str:
        """Why rounds fail again and again; empty: they do not."""
        return self._fault if self._failed_last - self._failed_first >= FAILS_S else ""

    def _failed(self, error: Exception) -> None:
        self._failed_last = time.monotonic()
        if not self._fault:
            self._failed_first = self._failed_last
        self._fault = (str(error) if isinstance(error, ApplianceError) else "") or repr(error)

    async def keep(self) -> None:
        while True:
            await woken(self._wake, min(MINUTE_S, self._rebalance.interval_s))
            self._wake.clear()
            try:
                await self._connected()
                await self._work()
                self._fault = ""
            except Deposed as error:
                self._resign(str(error))
            except AWAY as error:
                self._failed(error)  # also when each round is what ends the connection
                await self._again(AWAY_S)
            except (KazooException, ApplianceError) as error:
                log.error("a round has failed", error=error)
                self._failed(error)
                await self._again(AGAIN_S)
            except Exception as error:
                log.exception("a round failed unexpectedly")
                self._failed(error)
                await self._again(AGAIN_S)

    async def _connected(self) -> None:
        """The time without a connection is not that of rounds that fail."""
        before = time.monotonic()
        await self._session.connected()
        self._failed_first += time.monotonic() - before

    async def _again(self, after_s: float) -> None:
        """What was done of the round is not known."""
        self._is_everything = True
        await asyncio.sleep(after_s)
        self._wake.set()

    # terms

    async def _work(self) -> None:
        if self.term and not self._is_ours():
            self._resign("its node is gone")
        for news in await self._deletions.ended():
            self._view.table.apply(news)  # before everything is read: it is gone there, untold
        if self.term is None and self._may_stand():
            await self._stand()
        if self.term:
            if self._is_everything:
                await self._elect_before_reading(self.term)
                await self._view.read_everything()
            await self._round(self.term)
            await self._sweep(self.term)

    async def _elect_before_reading(self, term: Term) -> None:
        """Clients wait for the partitions of whom this controller follows, and reading everything
        takes a second for some thousand partitions."""
        await self._view.look_at_brokers()
        await self.elections.elect_in_sync(term)
        if self.elections.untold:
            await term.tell(merged(self.elections.untold), None, False, self._view.own)
            del self.elections.untold[:]
            self._view.tell()

    def _is_ours(self) -> bool:
        is_same = self._term_session == self._session.number
        return is_same and self._view.controller_id == self._node_id

    def _may_stand(self) -> bool:
        is_free = self._view.controller_id in (-1, self._node_id)
        return is_free and self._membership.life > 0 and self._view.was_read.is_set()

    async def _stand(self) -> None:
        number = self._session.number
        term = await elect_ourselves(self._session, self._node_id, self._lives.own_sessions)
        if term is None:
            self._view.look()
            return
        self.term, self._term_session, self._is_everything = term, number, True
        self.elections.untold.clear()
        self._told_ids.clear()
        self._view.set_controller(self._node_id, term.epoch)
        log.info("controller", epoch=term.epoch)

    def _resign(self, why: str) -> None:
        if self.term:
            log.info("controller no more", epoch=self.term.epoch, why=why)
        self.term = None
        self._view.look_at_everything()
        self._wake.set()

    # a round

    async def _round(self, term: Term) -> None:
        known = await requests.read_requests(self._session, self._view.reading, self.wake)
        self._view.set_leaving(requests.leaving_in(known))
        deleting = await self._delete(term)
        await self._learn(term, known)
        await self.elections.first_states(term, deleting)
        await self.elections.elect_in_sync(term)
        await self.elections.elect_by_setting(term)
        await self.elections.move_away(term)
        await self._rebalanced(term)
        await self.elections.finish_moves(term)
        await self._growth.begin(term, deleting)
        answers = [await self._tried(term, each) for each in known if not each.is_answered]
        await self._tell(term)
        for change in filter(None, answers):
            await term.commit(change)  # who asked may be gone

    async def _rebalanced(self, term: Term) -> None:
        if not self._rebalance.is_on or time.monotonic() < self._next_rebalance:
            return
        self._next_rebalance = time.monotonic() + self._rebalance.interval_s
        count = await self.elections.rebalance(term, self._rebalance.percentage)
        if count:
            log.info("preferred leaders lead again", partitions=count)

    async def _delete(self, term: Term) -> list[str]:
        """Those that are not gone yet."""
        wanted = await self._deletions.wanted(self.wake)
        for first in range(0, len(wanted), DELETED_TOGETHER):
            names = wanted[first:][:DELETED_TOGETHER]
            for news in await self._deletions.finish(names, term, self._view.own):
                log.info("topic deleted", topic=news.name)
                self._view.table.apply(news)
                self._told_ids.discard(news.topic_id)
                # What is still to be told of it would bring it back.
                untold = self.elections.untold
                untold[:] = [each for each in untold if each.topic_id != news.topic_id]
        return await self._deletions.wanted(self.wake) if wanted else []

    async def _learn(self, term: Term, known: list[Request]) -> None:
        table = self._view.table
        names = await self._session.children(paths.TOPICS, self.wake)
        changed = {str(each.fields.get("topic")) for each in known if each.what == PARTITIONS}
        for name in sorted({*filter(self._is_new, names)} | changed & {*names}):
            news = await self._view.reading.topic(name)
            if news:
                table.apply(news)
                self.elections.untold.append(news)
                self._told_ids.add(news.topic_id)
        if self._is_everything or self.elections.untold:
            await self._make_ids(term)

    def _is_new(self, name: str) -> bool:
        """This broker may have heard of it by other ways than a round, which tells the others."""
        topic_id = self._view.table.topic_id(name)
        return not topic_id or (not self._is_everything and topic_id not in self._told_ids)

    async def _make_ids(self, term: Term) -> None:
        """Of topics that others made, who know nothing of ours."""
        there = {*await self._session.children(paths.TOPIC_IDS)}
        for topic in [*self._view.table.topics.values()]:
            where = paths.topic_id(topic.topic_id)
            if where.rpartition("/")[2] not in there:
                change = term.change().check(paths.topic(topic.name), topic.version)
                await term.commit(change.create(where, topic.name.encode()))

    async def _tried(self, term: Term, request: Request) -> Change | None:
        """What is written as its answer. None: it stays as it is."""
        try:
            if request.what == PARTITIONS:
                return term.change().delete(request.path)
            answer = requests.answered_node(request, await self._done(term, request))
        except FormUnknown as error:
            self._view.reading.pass_over(request.path, error)
            return None
        return term.change().set(request.path, answer, request.version)

    async def _done(self, term: Term, request: Request) -> object:
        if request.what == LEAVE:
            node = Reader(request.path, request.fields).number("broker")
            return {"leads": self.elections.led_by(node)}
        unclean = request.fields.get("kind") == UNCLEAN
        codes = await self.elections.by_word(term, requests.keys_of(request), unclean)
        return [[*key, int(code)] for key, code in codes.items()]

    async def _tell(self, term: Term) -> None:
        leaving = {node: self._view.leaving[node] for node in self._view.leaving_now}
        untold = self.elections.untold
        if untold or self._is_everything or leaving != self._told_leaving:
            news = merged(untold)
            if self._is_everything:  # which the others read then
                self._told_ids = {each.topic_id for each in self._view.table.topics.values()}
            await term.tell(news, leaving, self._is_everything, self._view.own)
            del untold[:]
            self._is_everything, self._told_leaving = False, leaving
        self._view.tell()

    async def _sweep(self, term: Term) -> None:
        """Old notices go, but never the newest: whoever missed those sees by it that they were."""
        is_minute = time.monotonic() >= self._next_minute
        if not is_minute and self._view.notices_there < 2 * NOTICES_MAX:
            return
        numbers = await self._view.notices()
        if numbers:
            first = max(numbers[-1] + 1 - NOTICES_MAX, self._kept_from)
            await term.remove_notices([each for each in numbers[:-1] if each < first])
        if is_minute:
            self._kept_from = numbers[-1] if numbers else -1
            self._next_minute = time.monotonic() + MINUTE_S
