"""A broker that makes topics, all in one request, then gives all of them more partitions, and then
deletes them; in one recorded process. The last line tells what failed, and what was there before
the deletion."""

from __future__ import annotations

import asyncio
import errno
import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from appliance.broker.broker import Broker
from appliance.data_dir import locked_dir
from appliance.errors import ApplianceError
from appliance.machine.sync_guarantee import Syncs
from appliance.topics.topics import MorePartitions, NewTopic
from tests.support.broker import Recorder as DataPlane
from tests.support.broker import broker_config

from .trace import Recorder


def folders(root: Path) -> list[str]:
    return sorted(path.name for path in root.glob("t*-*"))


def told(failed: Iterable[ApplianceError]) -> list[str]:
    return sorted({f"{type(each).__name__}: {each}" for each in failed})


async def main(root: str, topics: str, sync: str, error: str) -> None:
    locked_dir.syncs_on = lambda path: Syncs("ext4", True, "")
    config = broker_config(Path(root))
    config = replace(config, storage=replace(config.storage, sync=sync))
    broker = await asyncio.to_thread(Broker.open, config)
    broker.connect(DataPlane())
    recorder = Recorder()
    await broker.topics.create("first")  # what is new in the catalog's log is there from here on
    names = [f"t{number}" for number in range(int(topics))]
    if error:
        recorder.fail(error, 1, errno.EIO)
    recorder.note({"do": "create"})
    made = await broker.topics.create_all([NewTopic(name, 1, {}) for name in names])
    recorder.note({"did": "create"})
    recorder.heal()
    more = await broker.topics.create_all_partitions([MorePartitions(name, 2) for name in names])
    recorder.note({"did": "extend"})
    failed = [each for each in (*made, *more) if isinstance(each, ApplianceError)]
    left = await asyncio.to_thread(folders, Path(root))
    recorder.note({"do": "delete"})
    gone = await broker.topics.delete_all({each: None for each in names if each in broker.topics})
    recorder.note({"did": "delete"})
    assert gone == {}
    assert folders(Path(root)) == []
    await broker.close()
    print(len(failed), len(left), *told(failed), sep="|")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
