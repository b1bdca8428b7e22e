"""A log that leads or follows, by what it is told of that."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from appliance._log import Log
from tests.support.logs import one_log

LIFE = 1


@contextmanager
def leading(path: Path, in_sync: tuple[int, ...] = (2, 3), min_in_sync: int = 2,
            epoch: int = 5, **given: object) -> Iterator[Log]:
    """Broker 1 leads, 2 and 3 are the other replicas."""
    with one_log(path, **given) as log:
        log.lead(epoch, 1, [2, 3], list(in_sync), min_in_sync)
        yield log


@contextmanager
def following(path: Path, epoch: int = 5, **given: object) -> Iterator[Log]:
    with one_log(path, **given) as log:
        log.follow(epoch, 1)
        yield log


def replicate(leader: Log, follower: Log, node: int = 2, epoch: int = 5, life: int = LIFE) -> None:
    """One fetch of a follower, and the next, which tells what it has on disk."""
    offset = follower.log_end_offset
    leader.fetched_by(node, life, epoch, offset)
    if data := leader.read(offset, 1 << 20, "end"):
        follower.append_replicated(data, epoch)
        follower.flush()
    leader.fetched_by(node, life, epoch, follower.durable_offset)
    follower.tell_replicated(epoch, leader.high_watermark)
