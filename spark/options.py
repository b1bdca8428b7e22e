"""The options of the data source, with the names and meanings of Spark's own Kafka connector.

Names are case-insensitive. Unknown options are ignored, as in that connector, so a job changes only
its format and adds the appliance's address.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from appliance.process.tls_client import CaFileInvalid, ca_in

READ_COMMITTED, READ_UNCOMMITTED = "read_committed", "read_uncommitted"

REFUSE, READ_FROM_START = "refuse", "readFromStart"

# Per task: large enough that Spark's overhead is small, and small enough that a task can keep the
# bytes of its split, which it must if it has transactions.
SPLIT_BYTES = 128 << 20


class OptionInvalid(ValueError):
    """The text has the option, its value, and what is wanted."""


@dataclass(frozen=True)
class Row:
    """One row of the table."""

    name: str
    default: str
    where: str  # batch, stream, write
    meaning: str


ROWS = (
    Row("url", "", "batch, stream, write", "The appliance's admin address: `http://host:port`, or "
        "`https://`. For reading, that of bulk data will do, too. Needed, but for a write with "
        "`kafka.bootstrap.servers`. Of a cluster several, separated by commas: any that answers "
        "makes the plan."),
    Row("appliances", "", "batch, stream", '`{"north": "http://a:8780", "south": '
        '"http://b:8780"}`: several appliances as one source, instead of `url`. A topic is read '
        "from each; `north/clicks` in other options is the one of that appliance. There is one "
        "more column, `appliance`."),
    Row("zookeeper", "", "batch, stream", "`zk1:2181,zk2:2181/path`, instead of `url`: the "
        "appliances that are registered there, named by their ids (`1/clicks`), or the brokers of "
        "the cluster there. The column `appliance` is there, too."),
    Row("zookeeper.admin.urls", "", "batch, stream", "Where their admin ports are, as "
        "`2=https://box2:8780,3=…`. Default: at the hosts that they have registered, port 8780, "
        "without TLS. Needed with a token: it is not sent to where a node of ZooKeeper says."),
    Row("caFile", "", "batch, stream, write", "With `https`: a file in PEM with the authorities "
        "that are trusted instead of the system's. The driver reads it, workers need none. "
        "Without it `APPLIANCE_CA_FILE` in the driver's environment."),
    Row("tokenFile", "", "batch, stream, write", "A file with the token of a user who may read "
        "messages: `appliance user token`. The driver reads it. Without it `APPLIANCE_TOKEN` in "
        "the driver's environment. Needed once the appliance has users."),
    Row("token", "", "batch, stream, write", "The token itself. Spark hides it in plans and pages; "
        "the program that sets it does not."),
    Row("subscribe", "", "batch, stream", "Topics, `a,b`. One of `subscribe`, `subscribePattern`, "
        "`assign`."),
    Row("subscribePattern", "", "batch, stream", "Topics whose whole name matches; evaluated again "
        "for every query, and for every batch of a stream. Of several appliances both names "
        "count: `clicks.*` is of each of them, `north/.*` of one."),
    Row("assign", "", "batch, stream", '`{"a": [0, 1], "b": [2]}`: these partitions.'),
    Row("startingOffsets", "earliest; stream: latest", "batch, stream",
        '`earliest`, `latest`, or `{"a": {"0": 23, "1": -2}}`: -2 is the earliest, -1 the latest. '
        "Offsets in the form of a checkpoint are also accepted; their topic's id is checked. "
        "A stream with a checkpoint continues there."),
    Row("endingOffsets", "latest", "batch", "The same for the end, exclusive."),
    Row("startingTimestamp", "", "batch, stream", "Milliseconds since 1970, for all partitions. "
        "Takes precedence over the other two."),
    Row("endingTimestamp", "", "batch", "The same for the end."),
    Row("startingOffsetsByTimestamp", "", "batch, stream",
        '`{"a": {"0": 1000, "1": 3000}}`: the first offset with at least this timestamp. Takes '
        "precedence over `startingOffsets`."),
    Row("endingOffsetsByTimestamp", "", "batch", "The same for the end."),
    Row("startingOffsetsByTimestampStrategy", "error", "batch, stream",
        "If no record has such a timestamp: `error`, or `latest`, which reads none."),
    Row("failOnDataLoss", "true", "batch, stream", "Whether a query fails if retention deleted "
        "its offsets or they are damaged. `false`: it continues after them."),
    Row("topicMadeAnew", REFUSE, "stream", "If a topic was deleted and created again since the "
        f"last batch: `{REFUSE}` with both ids in the error, or `{READ_FROM_START}`, which reads "
        "the new topic from its first record; unread records of the old one are lost."),
    Row("minPartitions", "", "batch, stream", "About the smallest number of tasks, even in bytes. "
        "Default: one for each partition and for each `splitBytes`."),
    Row("splitBytes", str(SPLIT_BYTES), "batch, stream", "About the largest number of stored bytes "
        "per task. The Kafka connector does not have it."),
    Row("maxRecordsPerPartition", "", "batch, stream", "The largest number of offsets per task."),
    Row("maxOffsetsPerTrigger", "", "stream", "The largest number of offsets per batch, in "
        "proportion to the rest of each partition. PySpark 4.2 and newer."),
    Row("minOffsetsPerTrigger", "", "stream", "A batch waits for this many offsets. PySpark 4.2 "
        "and newer."),
    Row("maxTriggerDelay", "15m", "stream", "The longest such wait: `30s`, `15m`, `1h`."),
    Row("includeHeaders", "false", "batch, stream", "Whether there is a column `headers`."),
    Row("kafka.isolation.level", READ_COMMITTED, "batch, stream",
        f"Or `{READ_UNCOMMITTED}`, which also reads records of aborted transactions."),
    Row("fetchOffset.numRetries", "10", "batch, stream", "Retries of a request without progress, "
        "with a pause that doubles."),
    Row("kafka.bootstrap.servers", "", "write", "The brokers to produce to, if not the address "
        "that the appliance reports. A read does not need it."),
    Row("topic", "", "write", "For all rows; without it a column `topic` has the topic of each."),
    Row("kafka.acks", "all", "write", "Or `1`: acknowledged when written, before it is on disk."),
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
    """The user's options, by their names in the table."""

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
        if not self._options:
            raise OptionInvalid(
                "no options: Spark hands those of CREATE TABLE to a source in Python only in a "
                "session that called appliance_spark.register(spark); else option url is needed"
            )
        if not text:
            hint = self.text("kafka.bootstrap.servers")
            beside = f" kafka.bootstrap.servers is {hint!r}, the address of its clients;" * bool(
                hint
            )
            raise OptionInvalid(
                f"option url is needed, the admin address of the appliance:{beside} set "
                '.option("url", "http://HOST:PORT") to what its ready line calls admin='
            )
        return _urls("url", text)

    def appliances(self) -> dict[str, str]:
        """Addresses by name; empty: there is one, or ZooKeeper has them."""
        ways = [each for each in ("url", "appliances", "zookeeper") if self.text(each)]
        if len(ways) > 1:
            raise OptionInvalid(f"options {' and '.join(ways)}: wanted one of them")
        if not self.text("appliances"):
            return {}
        found = self.json("appliances")
        if not isinstance(found, dict) or not all(
            re.fullmatch(r"[\w.-]+", name) and isinstance(url, str) for name, url in found.items()
        ) or not found:  # fmt: skip
            raise OptionInvalid(
                f'option appliances: got {found!r}, wanted {{"north": "http://host:port"}}'
            )
        return {name: _urls("appliances", url) for name, url in found.items()}

    def token(self) -> str:
        """"": nobody's."""
        file = self.text("tokenFile")
        if not file:
            return self.text("token") or os.environ.get("APPLIANCE_TOKEN", "")
        try:
            found = Path(file).read_text("utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise OptionInvalid(f"option tokenFile: {file}: {error}") from error
        if len(found.split()) != 1:
            raise OptionInvalid(f"option tokenFile: {file}: wanted one word, the token")
        return found

    def ca(self) -> str:
        """The authorities to trust, in PEM; "": the system's."""
        file = self.text("caFile") or os.environ.get("APPLIANCE_CA_FILE", "")
        try:
            return ca_in(file) if file else ""
        except CaFileInvalid as error:
            raise OptionInvalid(f"option caFile: {error}") from error


def _urls(option: str, text: str) -> str:
    """Without spaces and slashes at the end."""
    urls = [each.strip().rstrip("/") for each in text.split(",")]
    for url in urls:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise OptionInvalid(f"option {option}: got {url!r}, wanted http[s]://host:port")
    return ",".join(urls)


@dataclass(frozen=True)
class Topics:
    """The selected topics: names, a pattern, or partitions of each."""

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
