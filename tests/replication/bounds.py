"""Where the model is searched to exhaustion, how many states that are, and where bugs are found."""

from __future__ import annotations

from typing import NamedTuple

from tests.replication.partition_model import Model
from tests.replication.state import EVERYBODY, Budget, State, first_state

PAIR = 0b011  # the leader and one follower
ALONE = 0b001


class Bounds(NamedTuple):
    budget: Budget
    isr: int = EVERYBODY
    min_insync: int = 2
    written: int = 0  # committed records to begin with
    behind: tuple[str, ...] = ()  # steps that were taken before
    states: int = 0
    depth: int = 0

    def first(self, model: Model) -> State:
        state = first_state(self.budget, self.isr, self.min_insync, self.written)
        for label in self.behind:
            state = dict(model.steps(state))[label]
        return state


# Small, and of different kinds.
IN_GATE = {
    "late messages alone": Bounds(
        Budget(appends=2, late=1),
        states=2_172, depth=13,
    ),
    "two records, a session": Bounds(
        Budget(appends=2, lost_sessions=1, elections=1),
        states=12_187, depth=17,
    ),
    "the ISR shrinks twice": Bounds(
        Budget(appends=1, lost_sessions=1, elections=1, isr_writes=2),
        states=9_371, depth=16,
    ),
    "the ISR grows": Bounds(
        Budget(appends=1, lost_sessions=1, elections=1, isr_writes=1), PAIR,
        states=5_746, depth=14,
    ),
    "a lost disk": Bounds(
        Budget(crashes=1, lost_disks=1, lost_sessions=1, elections=1, isr_writes=1), written=1,
        states=17_091, depth=18,
    ),
    "a doubt, and the ISR grows": Bounds(
        Budget(appends=1, lost_sessions=1, elections=1, isr_writes=1, doubts=1), PAIR,
        states=9_900, depth=15,
    ),
    "one is enough": Bounds(
        Budget(appends=1, lost_sessions=1, elections=1, isr_writes=1), PAIR, 1,
        states=5_229, depth=14,
    ),
    "one alone": Bounds(
        Budget(appends=1, lost_sessions=1, elections=2, isr_writes=1), ALONE,
        states=2_958, depth=15,
    ),
    "a fetch of two epochs ago": Bounds(
        Budget(appends=1, lost_sessions=3, elections=3, late=1), behind=(
            "0 appends (1, 1)", "0 syncs", "0 answers 1, 1 takes it", "1 syncs, 1 fetches, late",
            "the session of 0 ends", "0 registers", "2 is elected",
            "2 learns of epoch 2, version 2",
        ),
        states=17_829, depth=18,
    ),
}

IN_RELEASE = {
    "a crash": Bounds(
        Budget(appends=1, crashes=1, lost_sessions=1, elections=1),
        states=27_036, depth=17,
    ),
    "min.insync changes": Bounds(
        Budget(appends=1, lost_sessions=1, elections=1, isr_writes=1, configs=1), PAIR,
        states=23_920, depth=15,
    ),
    "two controllers": Bounds(
        Budget(appends=1, lost_sessions=1, elections=2, late=1, controllers=1),
        states=12_331, depth=16,
    ),
    "an answer of two epochs ago": Bounds(
        Budget(appends=1, lost_sessions=3, elections=3, late=1), behind=(
            "0 appends (1, 1)", "0 syncs", "0 answers 1, 1 takes it",
            "the session of 0 ends", "0 registers", "2 is elected",
            "2 learns of epoch 2, version 2", "1 learns of epoch 2, version 2", "2 answers 1, late",
        ),
        states=24_382, depth=18,
    ),
    "the ISR grows, late": Bounds(
        Budget(appends=1, lost_sessions=1, elections=1, isr_writes=1, late=1), PAIR,
        states=55_762, depth=16,
    ),
    "a doubt, and the ISR grows late": Bounds(
        Budget(appends=1, lost_sessions=1, elections=1, isr_writes=1, late=1, doubts=1), PAIR,
        states=114_196, depth=17,
    ),
    "two elections, and the ISR grows": Bounds(
        Budget(appends=1, lost_sessions=2, elections=2, isr_writes=1), PAIR,
        states=133_675, depth=21,
    ),
    "one is enough, and crashes": Bounds(
        Budget(appends=1, crashes=1, lost_sessions=1, elections=1, isr_writes=1), PAIR, 1,
        states=100_746, depth=17,
    ),
    "two records, a crash": Bounds(
        Budget(appends=2, crashes=1, lost_sessions=1, elections=1),
        states=278_647, depth=21,
    ),
    "two records, the ISR shrinks": Bounds(
        Budget(appends=2, lost_sessions=1, elections=1, isr_writes=1),
        states=45_314, depth=19,
    ),
    "a topic made again": Bounds(
        Budget(appends=1, lost_sessions=2, elections=1, isr_writes=1, topics=1), PAIR, behind=(
            "0 answers 2, which is lost", "the session of 2 ends",
            "the topic is made again, 1 is elected",
        ),
        states=19_289, depth=18,
    ),
    "a lost disk, late": Bounds(
        Budget(crashes=1, lost_disks=1, lost_sessions=1, elections=1, isr_writes=1, late=1),
        written=1,
        states=117_153, depth=20,
    ),
    "a topic made again at any time": Bounds(
        Budget(appends=1, lost_sessions=1, elections=1, isr_writes=1, topics=1), PAIR,
        states=99_055, depth=19,
    ),
    "min.insync changes, and crashes": Bounds(
        Budget(appends=1, crashes=1, lost_sessions=1, elections=1, isr_writes=1, configs=1), PAIR,
        states=389_416, depth=19,
    ),
    "two controllers, and the ISR shrinks": Bounds(
        Budget(appends=1, lost_sessions=1, elections=2, isr_writes=1, late=1, controllers=1),
        states=49_516, depth=17,
    ),
    "two crashes": Bounds(
        Budget(appends=1, crashes=2, lost_sessions=1, elections=2),
        states=721_940, depth=25,
    ),
    "one of each, in time": Bounds(
        Budget(appends=1, crashes=1, lost_disks=1, lost_sessions=1, elections=1, isr_writes=1),
        PAIR,
        states=242_532, depth=23,
    ),
    "an eligible one is elected": Bounds(
        Budget(appends=1, lost_sessions=1, elections=1, isr_writes=3), PAIR,
        states=14_718, depth=17,
    ),
    "a topic made again, late": Bounds(
        Budget(appends=1, lost_sessions=1, elections=1, late=1, topics=1),
        states=113_521, depth=19,
    ),
    "two crashes, two records": Bounds(
        Budget(appends=2, crashes=2, elections=2),
        states=484_524, depth=26,
    ),
    "min.insync falls, and none are eligible": Bounds(
        Budget(appends=1, lost_sessions=1, elections=1, isr_writes=2, configs=1), PAIR,
        states=45_022, depth=18,
    ),
    "one of each, late": Bounds(
        Budget(
            appends=1, crashes=1, lost_disks=1, lost_sessions=1, elections=1, isr_writes=1, late=1
        ), PAIR,
        states=2_563_298, depth=25,
    ),
}

BOUNDS = IN_GATE | IN_RELEASE


class Found(NamedTuple):
    within: str
    invariant: str
    steps: int  # of the shortest path
    states: int  # that were seen until then


LOST = "nothing committed is lost"
BACK = "offsets never go back"

FOUND = {
    "truncates to the high watermark": Found("a lost disk", LOST, 3, 241),
    "logs may diverge": Found("two records, a session", "what was seen stays", 8, 2_559),
    "older epochs are answered": Found("a fetch of two epochs ago", LOST, 8, 5_541),
    "older answers are taken": Found("an answer of two epochs ago", LOST, 8, 8_102),
    "answers are taken anywhere": Found("late messages alone", "logs agree", 4, 147),
    "stale version is overwritten": Found("a lost disk", LOST, 6, 4_287),
    "refused write is tried again": Found("a lost disk", LOST, 7, 13_350),
    "unknown outcome is taken for refused": Found("the ISR grows, late", LOST, 9, 27_852),
    "stale read is believed": Found("the ISR grows", LOST, 8, 3_757),
    "page cache counts": Found("a crash", LOST, 10, 17_676),
    "leader's page cache counts": Found("a crash", LOST, 8, 6_723),
    "shrunk before it is written": Found("the ISR shrinks twice", LOST, 7, 2_000),
    "grown before it counts": Found("the ISR grows, late", LOST, 8, 18_681),
    "joins by an old look": Found("the ISR grows", LOST, 9, 4_539),
    "a doubt forgets the proposed": Found("a doubt, and the ISR grows late", LOST, 9, 49_576),
    "joins by watermark alone": Found("two elections, and the ISR grows", LOST, 12, 73_978),
    "epoch is led again": Found("a crash", "one leader an epoch", 2, 30),
    "former self joins": Found("a lost disk", LOST, 8, 9_961),
    "watermark moves below min.insync": Found("the ISR grows", LOST, 5, 603),
    "eligible are kept": Found("min.insync changes", LOST, 7, 4_174),
    "elects anybody": Found("the ISR grows", LOST, 6, 1_362),
    "old election is written": Found("two controllers", "one leader an epoch", 5, 947),
    "news go back": Found("the ISR grows, late", LOST, 10, 43_660),
    "lost disk stays in the ISR": Found("a lost disk", LOST, 4, 754),
    "resigns in its former life": Found("a lost disk", LOST, 8, 9_718),
    "lost disk in the same life": Found("a lost disk", "one leader an epoch", 2, 62),
    "topic is known by its name": Found("a topic made again", LOST, 9, 21_595),
    "watermark is told too early": Found("two records, a session", BACK, 8, 2_530),
}

# Rules that others cover: without them nothing is violated, and more states are reached.
NEEDLESS = {
    "controller is not fenced": "two controllers",
    "written in another session": "two elections, and the ISR grows",
    "former self is answered": "a lost disk, late",
    "former self's answers are taken": "a lost disk, late",
}
