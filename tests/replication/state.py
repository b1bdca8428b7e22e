"""What the model of a partition has: brokers, ZooKeeper, messages under way, what was shown.

A value that is a tuple is never changed. A broker and a state are changed while a step makes them,
as the copies that `State.copy` and `State.change` give, and never after it.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

BROKERS = 3
EVERYBODY = (1 << BROKERS) - 1  # sets of brokers are masks
NOBODY = -1
NONE, LEADER, FOLLOWER = range(3)
NO_ENDS = (0,) * BROKERS

# A record is a pair of the epoch in which it was appended and its number among all appended ones.
Record = tuple[int, int]
Records = tuple[Record, ...]


class Write(NamedTuple):
    """A leader's wish for another ISR, on its way to ZooKeeper."""

    topic: int
    version: int  # that it must have
    isr: int
    eligible: int
    added: int = NOBODY
    life: int = 0  # of the broker that is added
    is_taken: bool = False  # by ZooKeeper, and the leader has not heard of it


class Fetch(NamedTuple):
    topic: int
    follower: int
    life: int
    leader: int
    epoch: int
    offset: int
    last_epoch: int
    durable: int


class Answer(NamedTuple):
    topic: int
    follower: int
    life: int
    leader: int
    epoch: int
    offset: int
    records: Records
    watermark: int
    diverging: tuple[int, ...]  # an epoch and its end, or nothing


class News(NamedTuple):
    """What a controller tells a broker about a state that it wrote."""

    topic: int
    receiver: int
    version: int
    leader: int
    life: int
    epoch: int
    isr: int
    eligible: int


class Election(NamedTuple):
    """A controller's decision, on its way to ZooKeeper."""

    topic: int
    controller_epoch: int
    version: int  # that the state must have
    leader: int
    life: int
    epoch: int
    isr: int
    eligible: int


Message = Fetch | Answer | News | Election


class Broker:
    """A replica. All from `version` on is known by a leader alone."""

    __slots__ = (
        "durable", "eligible", "ends", "epoch", "is_empty", "is_registering", "is_up", "isr",
        "leader", "life", "lives", "log", "looked", "min_insync", "number", "proposed", "role",
        "start", "topic", "version", "watermark", "write",
    )  # fmt: skip

    def __init__(self, life: int) -> None:
        self.number = -1  # among all that a search has met
        self.topic = 1
        self.log: Records = ()
        self.durable = 0
        self.watermark = 0
        self.is_up = True
        self.is_empty = False  # it lost its disk, and knows
        self.is_registering = False
        self.life = life
        self.epoch = 0
        self.role = NONE
        self.leader = NOBODY
        self.write: Write | None = None
        self.version = 0  # of the state that it has read
        self.isr = 0
        self.eligible = 0
        self.proposed = 0  # a larger ISR that is being written; 0: none
        self.looked = 0  # who had caught up at some time; where a bug is planted alone
        self.min_insync = 0
        self.ends: tuple[int, ...] = NO_ENDS  # durable ends of all
        self.lives: tuple[int, ...] = NO_ENDS  # the life behind each of these
        self.start = 0  # the end of the log when the epoch began

    def copy(self) -> Broker:
        new = Broker.__new__(Broker)
        new.number = -1
        new.topic = self.topic
        new.log = self.log
        new.durable = self.durable
        new.watermark = self.watermark
        new.is_up = self.is_up
        new.is_empty = self.is_empty
        new.is_registering = self.is_registering
        new.life = self.life
        new.epoch = self.epoch
        new.role = self.role
        new.leader = self.leader
        new.write = self.write
        new.version = self.version
        new.isr = self.isr
        new.eligible = self.eligible
        new.proposed = self.proposed
        new.looked = self.looked
        new.min_insync = self.min_insync
        new.ends = self.ends
        new.lives = self.lives
        new.start = self.start
        return new

    def forget_leading(self) -> None:
        """Who does not lead needs nothing of a leader."""
        self.version = self.isr = self.eligible = self.proposed = self.min_insync = self.start = 0
        self.ends = self.lives = NO_ENDS
        self.looked = 0

    def cut(self, end: int) -> None:
        self.log = self.log[:end]
        self.durable = min(self.durable, end)
        self.watermark = min(self.watermark, end)


class Tree(NamedTuple):
    """ZooKeeper."""

    topic: int  # its id: a topic that is deleted and made again has another one
    version: int  # of the partition's state, which is the next five
    leader: int
    life: int  # of the leader that was elected
    epoch: int
    isr: int
    eligible: int  # brokers beside the ISR that have all that is committed (KIP-966)
    live: tuple[int, ...]  # the life whose session lives, 0: none
    lives: tuple[int, ...]  # the latest life of each broker
    controller_epoch: int
    min_insync: int


class Budget(NamedTuple):
    """What is left of what may happen: the bounds of a search."""

    appends: int = 0
    crashes: int = 0
    lost_disks: int = 0  # of the crashes
    lost_sessions: int = 0  # of brokers that run
    elections: int = 0
    isr_writes: int = 0
    late: int = 0  # messages and writes that do not come at once
    controllers: int = 0  # that take over from another
    configs: int = 0  # changes of min.insync.replicas
    topics: int = 0  # that are made again after the first
    doubts: int = 0  # of a leader about its session, which goes on


@cache
def less(budget: Budget, what: str) -> Budget:
    return budget._replace(**{what: getattr(budget, what) - 1})


class State:
    __slots__ = ("brokers", "budget", "committed", "led", "network", "tree")

    def __init__(self, brokers: list[Broker], tree: Tree, budget: Budget) -> None:
        self.brokers = brokers
        self.tree = tree
        self.network: tuple[Message, ...] = ()
        self.committed: Records = ()  # what some leader has shown
        self.led = 1 << tree.epoch  # the epochs that had a leader
        self.budget = budget

    def copy(self, spent: str = "") -> State:
        new = State.__new__(State)
        new.brokers = self.brokers.copy()
        new.tree = self.tree
        new.network = self.network
        new.committed = self.committed
        new.led = self.led
        new.budget = less(self.budget, spent) if spent else self.budget
        return new

    def change(self, number: int) -> Broker:
        """A copy of this broker, in its place."""
        broker = self.brokers[number] = self.brokers[number].copy()
        return broker

    def with_message(self, message: Message) -> State:
        after = self.copy("late")
        after.network = (*self.network, message)
        return after


def first_state(
    budget: Budget, isr: int = EVERYBODY, min_insync: int = 2, written: int = 0
) -> State:
    """Broker 0 leads, all are alive, and the ISR has this many committed records."""
    tree = Tree(1, 1, 0, 1, 1, isr, 0, (1,) * BROKERS, (1,) * BROKERS, 1, min_insync)
    brokers = [Broker(1) for _ in range(BROKERS)]
    records = tuple((1, -each) for each in range(written))
    for number, broker in enumerate(brokers):
        broker.role = FOLLOWER if number else LEADER
        broker.epoch, broker.leader = 1, 0
        if isr >> number & 1:
            broker.log, broker.durable, broker.watermark = records, written, written
    leader = brokers[0]
    leader.version, leader.isr, leader.min_insync = 1, isr, min_insync
    state = State(brokers, tree, budget)
    state.committed = records
    return state


@cache
def members(mask: int) -> tuple[int, ...]:
    return tuple(each for each in range(BROKERS) if mask >> each & 1)


def last_epoch(log: Records) -> int:
    return log[-1][0] if log else 0


def end_of_epoch(log: Records, epoch: int) -> tuple[int, int]:
    """The last epoch that is not above `epoch`, and the offset behind it."""
    end = len(log)
    while end and log[end - 1][0] > epoch:
        end -= 1
    return (log[end - 1][0] if end else 0), end


def replaced(values: tuple[int, ...], at: int, value: int) -> tuple[int, ...]:
    return (*values[:at], value, *values[at + 1 :])


def eligible_after(eligible: int, left: int, isr: int, min_insync: int) -> int:
    """Who is eligible after a change of the ISR: nothing counts while it is too small."""
    return 0 if isr.bit_count() >= min_insync else (eligible | left) & ~isr
