"""A replica that cannot go on behind records of its leader's is begun anew.

Empty, it begins behind them. An unclean election makes that: the log here began where a former
leader's did, or was cut down to its start. And a start that finds a partition's directory gone: the
log goes on where its records ended. It has no record that could be compared with the leader's, and
a log cannot go back. Whether the leader's end has passed its start by now is no matter: what is
before would be missing.

Or it lost records while the broker ran, has a hole in their place, and ends where its leader does:
what is missing it would never ask for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from appliance._log import Log
from appliance.config import topic_config
from appliance.data_dir import partition_metadata
from appliance.data_dir.partition_names import Key
from appliance.process import event_log
from appliance.process.detached_tasks import Changes
from appliance.topics.topics import Topics

events = event_log.named("replication")


async def begin_anew(
    topics: Topics, change: Changes, stop: Callable[[Key], None], key: Key,
    may: Callable[[Key], bool] = lambda key: True,
    before_it_follows: Callable[[Key], None] = lambda key: None,
) -> None:  # fmt: skip
    """Its files are set aside, as all that records might be in. `may` is asked once more when its
    turn has come. After `stop` nobody fetches for it."""
    await change(_begin_anew(topics, stop, key, may, before_it_follows))


async def _begin_anew(
    topics: Topics, stop: Callable[[Key], None], key: Key, may: Callable[[Key], bool],
    before_it_follows: Callable[[Key], None],
) -> None:  # fmt: skip
    name, number = key
    topic, log = topics.get(name), topics.served_log(name, number)
    if topic is None or log is None or not topic.is_replicated or not is_of_no_use(log):
        return  # it was deleted meanwhile, or has something by now
    if not may(key):
        return
    config = topic_config.readable(topic.configs, topics.base)[0][1]

    def replace() -> tuple[Path, Log]:
        place = topics.log_dir.set_aside(name, number)
        fresh = topics.log_dir.create(name, number, config)
        partition_metadata.write(Path(fresh.directory), topic.id)
        return place, fresh

    stop(key)
    topic.unserved[number] = "it had lost its records, and is not begun anew yet"
    topic.logs = [None if each == number else it for each, it in enumerate(topic.logs)]
    place, fresh = await asyncio.to_thread(replace)
    before_it_follows(key)
    topic.put_log(number, fresh)
    topics.show(topic)
    events.warning("a replica cannot go on behind records of its leader's: it begins anew",
                   partition=fresh.name, began=log.log_start_offset, set_aside=place)  # fmt: skip


def is_empty(log: Log) -> bool:
    return log.log_start_offset == log.log_end_offset > 0


def is_of_no_use(log: Log) -> bool:
    return log.role == "follower" and (is_empty(log) or lacks_records(log))


def lacks_records(log: Log) -> bool:
    """Between its start and its end."""
    return any(end > log.log_start_offset for _, end in log.holes())


def is_hollow(log: Log) -> bool:
    """All that it held is lost. It does not follow: what comes next would lie behind a hole."""
    return is_empty(log) and bool(log.holes())
