"""The directories of records over REST: which there are, whether each is served, and to open one
again that failed, or was mounted since."""

from __future__ import annotations

import asyncio
from typing import TypedDict

from appliance.admin.rights import DESCRIBE_CLUSTER
from appliance.admin.route import ADMIN, Call, get, post
from appliance.broker.broker import Broker
from appliance.data_dir.log_dirs import LogDirs
from appliance.data_dir.record_dir import RecordDir
from appliance.process.spoken import some


class LogDirRow(TypedDict):
    path: str
    id: str  # "": it is the only one, and needs none
    state: str  # open, offline; doubtful: a write failed, and nothing new goes there
    why: str
    total_bytes: int
    free_bytes: int
    is_full: bool
    partitions: int


class MoveRow(TypedDict):
    topic: str
    partition: int
    source: str
    target: str
    copied_bytes: int
    size_bytes: int
    why: str  # it failed, and is tried again


class LogDirList(TypedDict):
    log_dirs: list[LogDirRow]
    moves: list[MoveRow]  # of partitions from one to another, that are under way or wait


class Reopened(TypedDict):
    text: str
    partitions: int


class WantedLogDir(TypedDict):
    path: str


async def list_log_dirs(call: Call) -> LogDirList:
    rows = await asyncio.to_thread(rows_of, call.broker.log_dir)
    return {"log_dirs": rows, "moves": moves_of(call.broker)}


def moves_of(broker: Broker) -> list[MoveRow]:
    logs = broker.log_dir.logs()
    return [
        {
            "topic": key[0],
            "partition": key[1],
            "source": str(each.source.path),
            "target": str(each.target.path),
            "copied_bytes": 0 if each.copy is None else each.copy.copied_bytes,
            "size_bytes": logs[key].size if key in logs else 0,
            "why": each.why,
        }
        for key, each in broker.moves.under_way.items()
    ]


def rows_of(log_dirs: LogDirs) -> list[LogDirRow]:
    return [row_of_directory(log_dirs, each) for each in log_dirs.directories]


def row_of_directory(log_dirs: LogDirs, directory: RecordDir) -> LogDirRow:
    logs, room = directory.logs, directory.room()
    return {
        "path": str(directory.path),
        "id": directory.id,
        "state": "offline" if logs is None else "doubtful" if directory.fault else "open",
        "why": directory.fault,
        "total_bytes": room.total_bytes if logs else 0,
        "free_bytes": room.free_bytes if logs else 0,
        "is_full": logs is not None and logs.is_full,
        "partitions": log_dirs.count_in(directory),
    }


async def reopen(call: Call) -> Reopened:
    path = call.body["path"]
    count = await call.broker.reopening.directories.reopen(path)
    return {"text": f"{path} is open, with {some(count, 'partition')}", "partitions": count}


async def give_up(call: Call) -> Reopened:
    path = call.body["path"]
    count = await call.broker.reopening.directories.give_up(path)
    text = f"{path} was given up: {some(count, 'partition')} will begin anew"
    return {"text": f"{text}, and the ledger has the loss", "partitions": count}


ROUTES = [
    get(
        "/log-dirs",
        list_log_dirs,
        LogDirList,
        "The directories of records: room, partitions, and whether each is open.",
        rights=(DESCRIBE_CLUSTER,),
    ),
    post(
        "/log-dirs/reopen",
        reopen,
        Reopened,
        "Open a directory of records again, as after a crash: one that failed, or was mounted "
        "since. Its partitions are not served meanwhile.",
        body=WantedLogDir,
        role=ADMIN,
    ),
    post(
        "/log-dirs/give-up",
        give_up,
        Reopened,
        "Give up a directory of records that is offline and will not come back: its partitions "
        "begin anew, empty, and the ledger tells of the loss.",
        body=WantedLogDir,
        role=ADMIN,
    ),
]
