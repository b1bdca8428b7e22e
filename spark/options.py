"""The options of the data source: names and meaning are those of Spark's own Kafka connector.

Names are case-insensitive. An option that is not in the table is left alone, as that connector does
with names it does not know, so that a job changes only its format and says where the appliance is.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

READ_COMMITTED, READ_UNCOMMITTED = "read_committed", "read_uncommitted"

REFUSE, READ_FROM_START = "refuse", "readFromStart"

# Of one task: large enough that what Spark does for a task is little, small enough that a task may
# keep the bytes of its split, which it does where transactions are in it.
SPLIT_BYTES = 128 << 20


class OptionInvalid(ValueError):
    """The text says which option, what it was, and what is wanted."""


@dataclass(frozen=True)
class Row:
    """One row of the table."""

    name: str
    default: str
    where: str  # batch, stream, write
    meaning: str


ROWS = (
    Row("url", "", "batch, stream, write", "The appliance's admin address: `http://host:port`. "
        "Needed, but for a write with `kafka.bootstrap.servers`."),
    Row("token", "", "batch, stream, write", "Of a user who may read messages: "
        "`appliance user token`. Needed once the appliance has users."),
    Row("subscribe", "", "batch, stream", "Topics, `a,b`. One of `subscribe`, `subscribePattern`, "
        "`assign`."),
    Row("subscribePattern", "", "batch, stream", "Topics whose whole name matches; asked again "
        "for every query, and for every batch of a stream."),
    Row("assign", "", "batch, stream", '`{"a": [0, 1], "b": [2]}`: these partitions.'),
    Row("startingOffsets", "earliest; stream: latest", "batch, stream",
        '`earliest`, `latest`, or `{"a": {"0": 23, "1": -2}}`: -2 is the earliest, -1 the latest. '
        "Offsets as they stand in a checkpoint do too, and are held against their topic's id. "
        "A stream that goes on from a checkpoint goes on there."),
    Row("endingOffsets", "latest", "batch", "The same; the offset named is not read."),
    Row("startingTimestamp", "", "batch, stream", "Milliseconds since 1970, of all partitions. "
        "Wins over both others."),
    Row("endingTimestamp", "", "batch", "The same, of the end."),
    Row("startingOffsetsByTimestamp", "", "batch, stream",
        '`{"a": {"0": 1000, "1": 3000}}`: the first offset whose timestamp is that late. Wins over '
        "`startingOffsets`."),
    Row("endingOffsetsByTimestamp", "", "batch", "The same, of the end."),
    Row("startingOffsetsByTimestampStrategy", "error", "batch, stream",
        "What is done where no record is that late: `error`, or `latest`, which reads none."),
    Row("failOnDataLoss", "true", "batch, stream", "Whether a query fails when offsets that it "
        "should have read were deleted by retention or are damaged. `false`: it goes on behind."),
    Row("topicMadeAnew", REFUSE, "stream", "What is done when a topic was deleted and made anew "
        f"since the last batch: `{REFUSE}`, with both ids in the error, or `{READ_FROM_START}`: "
        "the new one is read from its first record on, whatever was not read of the old one is "
        "lost."),
    Row("minPartitions", "", "batch, stream", "At least about so many tasks, even in bytes. "
        "Without it, one for each partition and for each `splitBytes`."),
    Row("splitBytes", str(SPLIT_BYTES), "batch, stream", "Bytes of the log, as stored, that one "
        "task reads at most, about. Only here."),
    Row("maxRecordsPerPartition", "", "batch, stream", "Offsets that one task reads at most."),
    Row("maxOffsetsPerTrigger", "", "stream", "Offsets of one batch at most, shared out in "
        "proportion to what each partition has. PySpark 4.2 and newer."),
    Row("minOffsetsPerTrigger", "", "stream", "A batch waits for so many. PySpark 4.2 and newer."),
    Row("maxTriggerDelay", "15m", "stream", "But no longer than this: `30s`, `15m`, `1h`."),
    Row("includeHeaders", "false", "batch, stream", "Whether there is a column `headers`."),
    Row("kafka.isolation.level", READ_COMMITTED, "batch, stream",
        f"Or `{READ_UNCOMMITTED}`, which reads what aborted transactions wrote too."),
    Row("fetchOffset.numRetries", "10", "batch, stream", "How often in a row a request is tried "
        "again without a byte of progress, with a pause that doubles."),
    Row("kafka.bootstrap.servers", "", "write", "Where records are produced to, if that is not "
        "what the appliance says of itself. A read does not need it."),
    Row("topic", "", "write", "For all rows; without it a column `topic` says it row by row."),
    Row("kafka.acks", "all", "write", "Or `1`: written, but not yet on disk, when it is "
        "acknowledged."),
    Row("kafka.compression.type", "none", "write", "`none`, `gzip`, `snappy`, `lz4`, `zstd`."),
)  # fmt: skip


def as_markdown() -> str:
    lines = ["| option | default | for | |\n", "|---|---|---|---|\n"]
    for row in ROWS:
        default = f"`{row.default}`" if row.default else ""
        lines.append(f"| `{row.name}` | {default} | {row.where} | {row.meaning} |\n")
    return "".join(lines)


DEFAULTS = {row.name.lower(): row.default for row in ROWS}
TRUE_AND_FALSE = {"true": True, "false": False}
UNITS_S = {"ms": 0.001, "s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400}


class Given:
    """What a user set, each by its name in the table."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._options = {name.lower(): str(value).strip() for name, value in options.items()}

    def text(self, name: str) -> str:
        return self._options.get(name.lower(), "")

    def or_default(self, name: str) -> str:
        return self.text(name) or DEFAULTS[name.lower()]

    def bool(self, name: str) -> bool:
        text = self.or_default(name)
        if text.lower() not in TRUE_AND_FALSE:
            raise OptionInvalid(f"option {name}: got {text!r}, wanted true or false")
        return TRUE_AND_FALSE[text.lower()]

    def int(self, name: str, minimum: int) -> int | None:
        text = self.or_default(name)
        if not text:
            return None
        if not re.fullmatch(r"-?\d+", text) or int(text) < minimum:
            raise OptionInvalid(
                f"option {name}: got {text!r}, wanted a whole number of at least {minimum}"
            )
        return int(text)

    def choice(self, name: str, *choices: str) -> str:
        text = self.or_default(name)
        known = {each.lower(): each for each in choices}
        if text.lower() not in known:
            raise OptionInvalid(f"option {name}: got {text!r}, wanted one of {', '.join(choices)}")
        return known[text.lower()]

    def seconds(self, name: str) -> float:
        text = self.or_default(name)
        match = re.fullmatch(r"(\d+)\s*([a-z]+)", text.lower())
        if not match or match[2] not in UNITS_S:
            raise OptionInvalid(f"option {name}: got {text!r}, wanted a time as 30s, 15m or 1h")
        return int(match[1]) * UNITS_S[match[2]]

    def json(self, name: str) -> Any:
        try:
            return json.loads(self.text(name))
        except json.JSONDecodeError as error:
            raise OptionInvalid(f"option {name}: {self.text(name)!r} is no JSON: {error}") from None

    def url(self) -> str:
        text = self.text("url")
        if not text:
            hint = self.text("kafka.bootstrap.servers")
            beside = f" kafka.bootstrap.servers is {hint!r}, the address of its clients;" * bool(
                hint
            )
            raise OptionInvalid(
                f"option url is needed, the admin address of the appliance:{beside} set "
                '.option("url", "http://HOST:PORT") to what its ready line calls admin='
            )
        parts = urlsplit(text)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise OptionInvalid(f"option url: got {text!r}, wanted http://host:port")
        return text.rstrip("/")


@dataclass(frozen=True)
class Topics:
    """Which ones: names, a pattern, or partitions of each."""

    names: tuple[str, ...] = ()
    pattern: str = ""
    assigned: Mapping[str, tuple[int, ...]] | None = None


def topics_of(given: Given) -> Topics:
    ways = ("subscribe", "subscribePattern", "assign")
    chosen = [name for name in ways if given.text(name)]
    if len(chosen) != 1:
        got = " and ".join(chosen) or "none"
        raise OptionInvalid(f"options {', '.join(ways)}: got {got}, wanted exactly one of them")
    text = given.text(chosen[0])
    if chosen == ["subscribePattern"]:
        try:
            re.compile(text)
        except re.error as error:
            raise OptionInvalid(f"option subscribePattern: {text!r}: {error}") from None
        return Topics(pattern=text)
    if chosen == ["subscribe"]:
        names = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
        return Topics(names=names)
    return Topics(assigned=_assigned(given.json("assign")))


def _assigned(partitions: Any) -> dict[str, tuple[int, ...]]:
    is_right = isinstance(partitions, dict) and all(
        isinstance(numbers, list) and all(type(each) is int and each >= 0 for each in numbers)
        for numbers in partitions.values()
    )
    if not is_right or not partitions:
        raise OptionInvalid(f'option assign: got {partitions!r}, wanted {{"topic": [0, 1]}}')
    return {name: tuple(sorted(set(numbers))) for name, numbers in partitions.items()}
