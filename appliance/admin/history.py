"""The history: it is measured while the broker runs, and read by the console's charts.

    GET /api/v1/history                    the broker
    GET /api/v1/topics/{topic}/history     one topic
    GET /api/v1/groups/{group}/history     one consumer group

A range is answered in steps, each with the mean and the largest value: a mean alone hides a spike,
the largest alone looks like one all the time. A step in which nothing was measured is not there.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Collection
from typing import TypedDict

from aiohttp import web

from appliance.admin.broker_process import Process
from appliance.admin.history_values import Measures
from appliance.admin.partition_snapshot import Survey
from appliance.admin.rights import DESCRIBE_CLUSTER, DESCRIBE_GROUP, DESCRIBE_TOPIC
from appliance.admin.route import Call, NotServing, Param, get
from appliance.errors import RequestInvalid
from appliance.history.history import History
from appliance.history.levels import DAY_S, HOUR_S, MINUTE_S
from appliance.process import event_log

log = event_log.named("admin")

EVERY_S = 10
NAMES_EVERY = MINUTE_S // EVERY_S  # topics, groups, and a write to the disk

OF_BROKER = (
    "in_bytes_per_s", "out_bytes_per_s", "produces_per_s", "fetches_per_s", "produce_p50_ms",
    "produce_p99_ms", "fetch_p50_ms", "fetch_p99_ms", "commit_p50_ms", "commit_p99_ms",
    "connections", "processors", "memory_bytes", "logs_bytes", "free_bytes", "lag_records",
    "lag_seconds",
)  # fmt: skip
OF_TOPIC = ("in_bytes_per_s", "out_bytes_per_s", "size_bytes")
OF_GROUP = ("lag_records", "lag_seconds")


class SeriesOfTime(TypedDict):
    """Lists of one length."""

    at_s: list[int]  # the begin of each step
    mean: list[float]
    max: list[float]


class HistoryAnswer(TypedDict):
    from_s: int
    to_s: int
    step_s: int  # how long a step is
    kept_days: int
    left_out: int  # series that are not kept: `admin.history.series.max`
    series: dict[str, SeriesOfTime]


class Recorder:
    """The task that measures."""

    def __init__(self, process: Process, survey: Survey) -> None:
        config = process.config
        self._process, self._survey = process, survey
        self._measures = Measures(process)
        self.history = History(
            config.data_dir.absolute(), config.admin.history_days, config.admin.history_series_max
        )

    async def run(self) -> None:
        turn = 0
        while True:
            await asyncio.sleep(EVERY_S)
            turn += 1
            try:
                await self._measure(has_names=(turn - 1) % NAMES_EVERY == 0)
            except Exception:
                log.exception("the history could not be measured")

    async def _measure(self, has_names: bool) -> None:
        if self._process.broker is None:
            return
        values = self._measures.of_broker()
        if has_names:
            values |= self._measures.of_names(await self._survey.take())
        self.history.add(self.now_s(), values)
        if has_names:
            await asyncio.to_thread(self.history.write, self.now_s())

    def now_s(self) -> int:
        broker = self._process.broker
        return int(broker.clock.now_ms() // 1000 if broker else time.time())

    async def close(self) -> None:
        await asyncio.to_thread(self.history.close, self.now_s())


RECORDER: web.AppKey[Recorder] = web.AppKey("recorder")


def add_to(app: web.Application, process: Process, survey: Survey) -> None:
    app[RECORDER] = Recorder(process, survey)
    app.cleanup_ctx.append(_recording)


async def _recording(app: web.Application) -> AsyncIterator[None]:
    task = asyncio.get_running_loop().create_task(app[RECORDER].run())
    yield
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    await app[RECORDER].close()


async def get_history(call: Call) -> HistoryAnswer:
    return await _answer(call, "broker/", OF_BROKER)


async def get_history_of_topic(call: Call) -> HistoryAnswer:
    return await _answer(call, f"topic/{call.path['topic']}/", OF_TOPIC)


async def get_history_of_group(call: Call) -> HistoryAnswer:
    return await _answer(call, f"group/{call.path['group']}/", OF_GROUP)


async def _answer(call: Call, prefix: str, known: Collection[str]) -> HistoryAnswer:
    recorder = call.request.app[RECORDER]
    if call.process.broker is None:
        raise NotServing(f"the broker is {call.process.status}")
    wanted, now_s = _wanted(call.params["series"], known), recorder.now_s()
    from_s, to_s = _range(call, now_s)
    names = [prefix + each for each in wanted]
    found = await asyncio.to_thread(recorder.history.read, names, from_s, to_s, now_s)
    return {
        "from_s": from_s,
        "to_s": to_s,
        "step_s": found.level.step_s,
        "kept_days": call.process.config.admin.history_days,
        "left_out": recorder.history.left_out,
        "series": {
            each: {
                "at_s": [one.at_s for one in found.series[name]],
                "mean": [one.mean for one in found.series[name]],
                "max": [one.max for one in found.series[name]],
            }
            for each, name in zip(wanted, names, strict=True)
        },
    }


def _wanted(text: str, known: Collection[str]) -> list[str]:
    wanted = list(dict.fromkeys(text.split(","))) if text else list(known)
    for each in wanted:
        if each not in known:
            raise RequestInvalid(f"series: got {each[:80]!r}, wanted some of {', '.join(known)}")
    return wanted


def _range(call: Call, now_s: int) -> tuple[int, int]:
    to_s = now_s if call.params["to_s"] is None else call.params["to_s"]
    from_s = to_s - HOUR_S if call.params["from_s"] is None else call.params["from_s"]
    if from_s >= to_s:
        raise RequestInvalid(f"from_s is {from_s} and to_s {to_s}: wanted the earlier one first")
    oldest_s = now_s - call.process.config.admin.history_days * DAY_S
    return min(max(from_s, oldest_s), to_s), to_s


def _params(known: Collection[str]) -> tuple[Param, ...]:
    second = "in seconds since 1970"
    return (
        Param("series", str, f"Which, with commas between them: {', '.join(known)}.", ""),
        Param("from_s", int, f"The begin, {second}; without it an hour before the end.", minimum=0),
        Param("to_s", int, f"The end, {second}; without it now.", minimum=0),
    )


ROUTES = [
    get(
        "/history",
        get_history,
        HistoryAnswer,
        "What the broker's numbers were.",
        params=_params(OF_BROKER),
        rights=(DESCRIBE_CLUSTER,),
    ),
    get(
        "/topics/{topic}/history",
        get_history_of_topic,
        HistoryAnswer,
        "What a topic's rates and size were.",
        params=_params(OF_TOPIC),
        rights=(DESCRIBE_TOPIC,),
    ),
    get(
        "/groups/{group}/history",
        get_history_of_group,
        HistoryAnswer,
        "What a consumer group's lag was.",
        params=_params(OF_GROUP),
        rights=(DESCRIBE_GROUP,),
    ),
]
