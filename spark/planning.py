"""From options to closed ranges of offsets, and then to splits for tasks. On the driver.

The offsets are fixed here, before the first task: the plan has only numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from pyspark.sql.datasource import InputPartition

from appliance_spark.appliances import Appliances, appliance_in, topic_in
from appliance_spark.bounds import ID, Bound, as_text
from appliance_spark.endpoint import OTHER_TOPIC, Endpoint, Refused
from appliance_spark.options import (
    READ_COMMITTED,
    READ_UNCOMMITTED,
    Given,
    OptionInvalid,
    Topics,
    topics_of,
)
from appliance_spark.zookeeper_path import appliances_at

LATEST_STRATEGY = "latest"

# By topic and partition, as in JSON; beside the partitions is the id of their topic:
# {"clicks": {"0": 17, "1": 4, "id": "7gxDFHLZRl-H1PzvcVlmdA"}}
Offsets = dict[str, dict[str, Any]]


class DataLost(RuntimeError):
    """Offsets of the read no longer exist."""


class TopicMadeAnew(RuntimeError):
    """The offsets are of a deleted topic, and another topic has its name."""


@dataclass
class Split(InputPartition):
    """The range of one task, without `end`."""

    topic: str
    partition: int
    start: int
    end: int
    topic_id: str = ""
    url: str = ""  # where the data is; "": where the plan was asked for
    appliance: str = ""  # its name, if there are several


@dataclass(frozen=True)
class PlannedRange:
    """One partition with its requested range."""

    topic: str  # behind the name of its appliance, if there are several
    partition: int
    log_start_offset: int
    end_offset: int
    start: int
    end: int
    topic_id: str = ""  # "": unknown


@dataclass(frozen=True)
class Settings:
    """What batch and stream reads have in common."""

    endpoints: Mapping[str, Endpoint]  # by name of the appliance; "": the only one
    topics: Topics
    isolation: str
    fail_on_data_loss: bool
    strategy: str
    min_partitions: int
    split_bytes: int
    split_records: int | None


def settings_of(given: Given) -> Settings:
    return Settings(
        endpoints=endpoints_of(given),
        topics=topics_of(given),
        isolation=given.choice("kafka.isolation.level", READ_COMMITTED, READ_UNCOMMITTED),
        fail_on_data_loss=given.bool("failOnDataLoss"),
        strategy=given.choice("startingOffsetsByTimestampStrategy", "error", LATEST_STRATEGY),
        min_partitions=given.int("minPartitions", 1) or 1,
        split_bytes=given.int("splitBytes", 1) or 1,
        split_records=given.int("maxRecordsPerPartition", 1),
    )


def endpoint_of(given: Given) -> Endpoint:
    return _endpoint(given, given.url())


def endpoints_of(given: Given) -> dict[str, Endpoint]:
    named = given.appliances() or (appliances_at(given) if given.text("zookeeper") else {})
    if not named:
        return {"": endpoint_of(given)}
    return {name: _endpoint(given, url) for name, url in named.items()}


def _endpoint(given: Given, url: str) -> Endpoint:
    retries = given.int("fetchOffset.numRetries", 0) or 0
    return Endpoint(url, given.token(), retries, given.ca())


class Planner:
    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.appliances = Appliances(settings.endpoints, settings.topics)

    def resolve(self, first: Bound, end: Bound) -> list[PlannedRange]:
        """Each selected partition, with numbers for both bounds."""
        topics = self.appliances.topics()
        return [each for topic in topics for each in self._resolve(topic, first, end)]

    def _resolve(self, topic: str, first: Bound, end: Bound) -> list[PlannedRange]:
        topic_id, ends = self._ends(topic)
        numbers = sorted(ends)
        for bound in (first, end):
            check_same(f"option {bound.option}", topic, bound.ids.get(topic), topic_id)
        chosen = self._chosen(topic, numbers, first, end)
        if not chosen:
            return []
        asked = [{number: bound.of(topic, number) or "" for number in chosen}
                 for bound in (first, end)]  # fmt: skip
        plan = self._ask(topic, as_text(asked[0]), as_text(asked[1]), 0, topic_id)
        ranges = [self._planned(topic, each, topic_id) for each in plan["partitions"]]
        for bound, texts in zip((first, end), asked, strict=True):
            self._check_shrunk(f"option {bound.option}", ranges, texts)
        self._check_times(first, ranges)
        return ranges

    def _ask(self, topic: str, first: str, end: str, splits: int, topic_id: str) -> Any:
        try:
            isolation = self.settings.isolation
            return self.appliances.plan(topic, first, end, splits, isolation, topic_id)
        except Refused as error:
            if error.status != OTHER_TOPIC:
                raise
            raise TopicMadeAnew(
                f"topic {topic} was made anew while its offsets were planned, nothing was read of "
                f"the new one: {error.text}"
            ) from error

    def ends(self) -> Offsets:
        """The ends of all selected partitions in one request, because a stream asks often."""
        made: Offsets = {}
        for topic in self.appliances.topics():
            topic_id, ends = self._ends(topic)
            made[topic] = {**{str(number): end for number, end in ends.items()}, ID: topic_id}
        return made

    def topic_id(self, topic: str) -> str:
        return self._ends(topic)[0]

    def _ends(self, topic: str) -> tuple[str, dict[int, int]]:
        plan = self.plan(topic, "latest", "latest")
        there = {each["partition"]: each["end_offset"] for each in plan["partitions"]}
        assigned = self.appliances.assigned(topic)
        if assigned is None:
            return plan["topic_id"], there
        missing = sorted(set(assigned) - set(there))
        if missing:
            raise OptionInvalid(
                f"option assign: topic {topic} has partitions 0 to {len(there) - 1}, got {missing}"
            )
        return plan["topic_id"], {number: there[number] for number in assigned}

    def plan(self, topic: str, first: str, end: str) -> Any:
        """Of the topic that has the name now."""
        return self.appliances.plan(topic, first, end, 0, self.settings.isolation)

    def _chosen(self, topic: str, numbers: list[int], first: Bound, end: Bound) -> list[int]:
        """Both bounds may name the same subset of partitions, which is then read. If only one bound
        names a subset, the others were forgotten."""
        named = [each for each in (first.partitions(topic), end.partitions(topic))
                 if each is not None]  # fmt: skip
        if len(named) == 2 and named[0] == named[1] and named[0] <= set(numbers):
            return sorted(named[0])
        for bound in (first, end):
            of_bound = bound.partitions(topic)
            if of_bound is not None and of_bound != set(numbers):
                raise OptionInvalid(
                    f"option {bound.option}: names partitions {sorted(of_bound)} of topic {topic}, "
                    f"wanted all that are read, {numbers} (-2: earliest, -1: latest)"
                )
        return numbers

    def _planned(self, topic: str, plan: Mapping[str, Any], topic_id: str) -> PlannedRange:
        self._check_loss(topic, plan)
        return PlannedRange(
            topic, plan["partition"], plan["log_start_offset"], plan["end_offset"], plan["start"],
            plan["end"], topic_id,
        )  # fmt: skip

    def _check_shrunk(
        self, who: str, ranges: Iterable[PlannedRange], asked: Mapping[int, str]
    ) -> None:
        """The plan takes a bound after the end for the end: a caller with that offset would
        silently read less."""
        if not self.settings.fail_on_data_loss:
            return
        for each in ranges:
            text = asked[each.partition]
            if text.isdecimal() and int(text) > each.end_offset:
                raise DataLost(
                    f"{who}: got offset {text} of {each.topic}-{each.partition}, which can be read "
                    f"to {each.end_offset} now (failOnDataLoss=false reads to there)"
                )

    def _check_loss(self, topic: str, plan: Mapping[str, Any]) -> None:
        if not self.settings.fail_on_data_loss:
            return
        where, how = f"{topic}-{plan['partition']}", "(failOnDataLoss=false reads what is left)"
        if plan.get("lost"):
            asked = plan["log_start_offset"] - plan["lost"]
            raise DataLost(
                f"{where}: {plan['lost']} offsets from {asked} on were deleted by retention, the "
                f"log starts at {plan['log_start_offset']} {how}"
            )
        if plan.get("holes"):
            raise DataLost(f"{where}: offsets {plan['holes']} are damaged or gone {how}")

    def _check_times(self, first: Bound, ranges: Iterable[PlannedRange]) -> None:
        if not first.by_time or self.settings.strategy == LATEST_STRATEGY:
            return
        for each in ranges:
            if each.start >= each.end_offset:
                raise OptionInvalid(
                    f"option {first.option}: no record of {each.topic}-{each.partition} is as late "
                    f"as {first.of(each.topic, each.partition)} "
                    "(startingOffsetsByTimestampStrategy=latest takes it for empty)"
                )

    def splits(self, ranges: list[PlannedRange]) -> list[Split]:
        """Even in bytes over all topics."""
        plans = [self._plan(topic, of, 0) for topic, of in by_topic(ranges).items()]
        sizes = [sum(each["bytes"] for each in plan["splits"]) for plan in plans]
        total = sum(sizes)
        wanted = max(self.settings.min_partitions, -(-total // self.settings.split_bytes))
        made: list[Split] = []
        for (topic, of), plan, size in zip(by_topic(ranges).items(), plans, sizes, strict=True):
            share = -(-wanted * size // total) if total else 0
            if share > len(plan["splits"]):
                plan = self._plan(topic, of, share)
            made += [
                Split(topic_in(topic), each["partition"], each["start"], each["end"],
                      plan["topic_id"], plan["url"], appliance_in(topic))
                for each in plan["splits"]
            ]
        return [part for split in made for part in cut(split, self.settings.split_records)]

    def log_start(self, topic: str, partition: int) -> int:
        text = as_text({partition: "earliest"})
        plan = self.plan(topic, text, text)
        return int(plan["partitions"][0]["log_start_offset"])

    def _plan(self, topic: str, ranges: list[PlannedRange], splits: int) -> Any:
        first = {each.partition: each.start for each in ranges}
        ends = {each.partition: str(each.end) for each in ranges}
        plan = self._ask(topic, as_text(first), as_text(ends), splits, ranges[0].topic_id)
        there = [self._planned(topic, each, plan["topic_id"]) for each in plan["partitions"]]
        self._check_shrunk("the plan", there, ends)
        return plan


def cut(split: Split, records_max: int | None) -> list[Split]:
    """Even in offsets, wherever batches begin: a task skips records outside its range."""
    size = split.end - split.start
    if records_max is None or size <= records_max:
        return [split]
    count = -(-size // records_max)
    ends = [split.start + size * i // count for i in range(count + 1)]
    return [replace(split, start=start, end=end) for start, end in pairwise(ends)]


def check_same(who: str, topic: str, was: str | None, now: str) -> None:
    """Checks the topic id of offsets."""
    if was and was != now:
        raise TopicMadeAnew(
            f"{who}: its offsets are of the topic {topic} with id {was}; that one was deleted, and "
            f"the topic of that name has id {now} now"
        )


def by_topic(ranges: Iterable[PlannedRange]) -> dict[str, list[PlannedRange]]:
    made: dict[str, list[PlannedRange]] = {}
    for each in ranges:
        if each.start < each.end:
            made.setdefault(each.topic, []).append(each)
    return made
