"""Offsets, sizes, lag and flush state: REST and the pages show the same values as Kafka's tools and
`ls`, while records are written and read.

Under load a tool's value lies between two values of REST, one before and one after it, because
offsets, sizes and commits only grow here. Without load both are equal.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import threading
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Consumer, Producer
from playwright.sync_api import Browser

from appliance.testing import RunningBroker, running_broker
from tests.console.conftest import WAIT_S, Console, delivered
from tests.interop.kafka_tools import KafkaTools
from tests.interop.test_kafka_group_tools import described
from tests.support.rest import Rest

TOPIC, PARTITIONS, GROUP = "orders", 3, "billing"
SETTINGS = {"num.partitions": str(PARTITIONS), "log.segment.bytes": "100000"}
NONE = "\N{EN DASH}"


class Facts(NamedTuple):
    """The facts of one partition. All of them only grow."""

    start: int
    end: int
    size: int
    committed: int


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    with running_broker(tmp_path_factory.mktemp("facts") / "data", SETTINGS) as running:
        yield running


@pytest.fixture(scope="module")
def tools(own: RunningBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaTools]:
    started = KafkaTools(own.bootstrap, tmp_path_factory.mktemp("tools"))
    yield started
    started.close()


@contextlib.contextmanager
def load(bootstrap: str) -> Iterator[None]:
    """At its end all records are delivered, and at least half of them are committed."""
    ending = threading.Event()
    threads = [threading.Thread(target=each, args=(bootstrap, ending)) for each in (write, read)]
    for each in threads:
        each.start()
    yield
    ending.set()
    for each in threads:
        each.join()


def write(bootstrap: str, ending: threading.Event) -> None:
    producer = Producer(
        {"bootstrap.servers": bootstrap, "acks": 1, "linger.ms": 5, "on_delivery": delivered}
    )
    number = 0
    while not ending.wait(0.01):
        for _ in range(50):
            number += 1
            producer.produce(TOPIC, b"x" * 100, str(number), number % PARTITIONS)
        producer.poll(0)
    assert producer.flush(WAIT_S) == 0


def read(bootstrap: str, ending: threading.Event) -> None:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": GROUP,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([TOPIC])
    while not ending.is_set():
        if consumer.consume(100, 0.1):
            consumer.commit(asynchronous=False)
    consumer.close()


# Sources


def of_rest(rest: Rest) -> list[Facts]:
    group = rest.get(f"/groups/{GROUP}")
    committed = {each["partition"]: each["committed"] for each in group["offsets"]}
    return [
        Facts(each["log_start_offset"], each["high_watermark"], each["size_bytes"],
              committed.get(each["partition"]) or 0)
        for each in rest.get(f"/topics/{TOPIC}")["partition_rows"]
    ]  # fmt: skip


def of_tools(tools: KafkaTools) -> list[Facts]:
    committed = {int(row["PARTITION"]): row for row in described(tools, GROUP)}
    starts, ends = offsets(tools, "-2"), offsets(tools, "-1")
    said = tools.must("kafka-log-dirs", "--describe", "--topic-list", TOPIC).splitlines()
    (folder,) = json.loads(said[2])["brokers"][0]["logDirs"]
    sizes = {each["partition"]: each["size"] for each in folder["partitions"]}
    return [
        Facts(starts[each], ends[each], sizes[f"{TOPIC}-{each}"], number(committed, each))
        for each in range(PARTITIONS)
    ]


def number(committed: dict[int, dict[str, str]], partition: int) -> int:
    text = committed[partition]["CURRENT-OFFSET"] if partition in committed else "-"
    return 0 if text == "-" else int(text)


def offsets(tools: KafkaTools, time: str) -> dict[int, int]:
    said = tools.must("kafka-get-offsets", "--topic", TOPIC, "--time", time)
    rows = [line.rsplit(":", 2) for line in said.split()]
    return {int(partition): int(offset) for _, partition, offset in rows}


def of_ls(own: RunningBroker, partition: int) -> int:
    folder = own.data_dir / f"{TOPIC}-{partition}"
    said = subprocess.run(["ls", "-l", folder], capture_output=True, text=True, check=True).stdout
    return sum(int(line.split()[4]) for line in said.splitlines() if line.endswith(".log"))


# Rules


def holds_together(rows: list[dict[str, Any]]) -> None:
    for row in rows:
        assert row["log_start_offset"] <= row["durable_offset"] <= row["log_end_offset"]
        assert row["unflushed_records"] == row["log_end_offset"] - row["durable_offset"]
        assert (row["unflushed_records"] > 0) == (row["unflushed_bytes"] > 0)
        assert row["unflushed_bytes"] <= row["size_bytes"]


def test_what_is_shown_is_what_kafkas_tools_and_ls_say(
    own: RunningBroker, tools: KafkaTools, browser: Browser
) -> None:
    rest = Rest(own.admin)
    rest.post("/topics", {"name": TOPIC, "partitions": PARTITIONS})
    with load(own.bootstrap):
        tools_wait_for_a_commit(rest)
        before, said, after = of_rest(rest), of_tools(tools), of_rest(rest)
        holds_together(rest.get(f"/topics/{TOPIC}")["partition_rows"])
    for low, told, high in zip(before, said, after, strict=True):
        assert all(a <= b <= c for a, b, c in zip(low, told, high, strict=True)), (low, told, high)
    assert sum(each.end for each in after) > sum(each.end for each in before)
    quiet(own, rest, tools)
    the_page_shows(own, rest, browser)


def tools_wait_for_a_commit(rest: Rest) -> None:
    for _ in range(WAIT_S * 10):
        groups = rest.get("/groups")["groups"]
        if groups and groups[0]["members"] and groups[0]["topics"]:
            return
        threading.Event().wait(0.1)
    raise AssertionError(f"nobody has committed after {WAIT_S} s")


def all_is_flushed(rest: Rest) -> None:
    """Readers do not see records before they are on disk."""
    for _ in range(WAIT_S * 10):
        rows = rest.get(f"/topics/{TOPIC}")["partition_rows"]
        if all(each["high_watermark"] == each["log_end_offset"] for each in rows):
            return
        threading.Event().wait(0.1)
    raise AssertionError(f"not flushed after {WAIT_S} s: {rows}")


def quiet(own: RunningBroker, rest: Rest, tools: KafkaTools) -> None:
    all_is_flushed(rest)
    shown = of_rest(rest)
    assert shown == of_tools(tools)
    assert [each.size for each in shown] == [of_ls(own, each) for each in range(PARTITIONS)]
    lags = {int(row["PARTITION"]): int(row["LAG"]) for row in described(tools, GROUP)}
    group = rest.get(f"/groups/{GROUP}")
    assert {each["partition"]: each["lag_records"] for each in group["offsets"]} == lags
    assert group["lag_records"] == sum(lags.values()) == sum(e.end - e.committed for e in shown)
    rows = rest.get(f"/topics/{TOPIC}")["partition_rows"]
    holds_together(rows)
    for row in rows:
        segments = rest.get(f"/topics/{TOPIC}/partitions/{row['partition']}/segments")["segments"]
        folder = own.data_dir / f"{TOPIC}-{row['partition']}"
        files = {each.name: each.stat().st_size for each in folder.glob("*.log")}
        assert {each["file"]: each["size_bytes"] for each in segments} == files


def the_page_shows(own: RunningBroker, rest: Rest, browser: Browser) -> None:
    """Within a second of the last write all records are on disk, and the page shows it."""
    page = Console(browser.new_page(), f"http://{own.admin}").open(f"topics/{TOPIC}")
    rows = rest.get(f"/topics/{TOPIC}")["partition_rows"]
    for row in rows:
        cells = page.locator(f"#partitions-{TOPIC} tbody tr").nth(row["partition"])
        shown = {
            name: cells.locator(f"td[data-label='{name}']").inner_text().replace(" ", "")
            for name in ("Start", "Durable", "Visible", "End", "Unflushed")
        }
        end = str(row["log_end_offset"])
        start = str(row["log_start_offset"])
        assert shown == {"Start": start, "Durable": end, "Visible": end, "End": end,
                         "Unflushed": NONE}  # fmt: skip
    lag = str(rest.get(f"/groups/{GROUP}")["lag_records"])
    page.goto(f"http://{own.admin}/#/groups/{GROUP}")
    strip = page.locator("dl.strip", has_text="Lag, records")
    assert f"Lag,records\n{lag}record" in strip.inner_text().replace(" ", "")
    page.close()
