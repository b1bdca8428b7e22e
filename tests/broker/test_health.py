"""One place decides what is true; whoever asks, however they ask, hears the same words."""

from __future__ import annotations

import json
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from confluent_kafka import Producer

from appliance.broker import health
from appliance.broker.finding import FINDINGS_TOLD, Finding, first_of
from appliance.broker.health import Health, sentence
from appliance.broker.health_of_every_log import from_the_future
from appliance.catalog.catalog import NAME, Catalog
from appliance.catalog.loss_ledger import Damage, Ledger
from appliance.catalog.loss_ledger_rows import LedgerRows
from appliance.cli.main import main
from appliance.machine.sync_guarantee import Syncs
from appliance.machine.watch import Machine
from appliance.testing import RunningBroker, running_broker
from tests.support.rest import Rest

DAY_MS = 86_400_000
DEADLINE_S = 20.0
LOST = Damage("orders", 3, 100, 405, "the directory is gone")
WORDS = "lost orders-3: offsets 100 to 405: the directory is gone (found "


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def healthz(broker: RunningBroker) -> tuple[int, dict[str, Any]]:
    url = f"http://{broker.admin}/healthz"
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as refused:
        return refused.code, json.load(refused)


def metrics(broker: RunningBroker) -> str:
    with urllib.request.urlopen(f"http://{broker.admin}/metrics", timeout=10) as answer:
        text: str = answer.read().decode()
        return text


def run(broker: RunningBroker, *line: str) -> tuple[int, str]:
    result = CliRunner().invoke(main, [*line, "--admin", broker.admin])
    return result.exit_code, result.output


def test_a_loss_is_told_by_everybody_until_it_is_acknowledged_and_over_restarts(
    tmp_path: Path,
) -> None:
    with running_broker(tmp_path) as broker:
        assert healthz(broker)[1]["status"] == "ok"
    catalog = Catalog.open(tmp_path / NAME)
    Ledger(LedgerRows(catalog)).note([LOST])
    catalog.close()
    with running_broker(tmp_path) as broker:
        status, told = healthz(broker)
        assert (status, told["status"], told["losses"]) == (200, "degraded", 1)
        (reason,) = told["reasons"]
        assert reason.startswith(WORDS)
        answer = Rest(broker.admin).get("/health")
        assert answer["sentence"] == f"Degraded: {reason}."
        assert answer["findings"] == [{"level": "degraded", "area": "ledger", "text": reason}]
        page = metrics(broker)
        assert "\nappliance_healthy 0.0\n" in page
        assert "\nappliance_failing 0.0\n" in page
        assert "\nappliance_ledger_open_entries 1.0\n" in page
        for command in ("health", "status"):
            code, said = run(broker, command)
            assert said.startswith(f"Degraded: {reason}.")
        assert run(broker, "health")[0] == 10
        code, said = run(broker, "ledger", "list")
        assert (code, "100..405" in said) == (10, True)
        assert run(broker, "ledger", "acknowledge", "1")[0] == 0
        assert healthz(broker)[1]["status"] == "ok"
        assert run(broker, "ledger", "list")[0] == 0
    with running_broker(tmp_path) as broker:
        assert healthz(broker)[1]["status"] == "ok"
        (entry,) = Rest(broker.admin).get("/ledger")["entries"]
        assert (entry["cause"], entry["acknowledged_by"]) != ("", "")
        trail = Rest(broker.admin).get("/audit")["entries"]
        assert any("ledger/acknowledge" in each["action"] for each in trail)


def test_an_entry_that_is_not_there_is_not_found(tmp_path: Path) -> None:
    with running_broker(tmp_path) as broker:
        answer = Rest(broker.admin).ask("POST", "/ledger/acknowledge", {"ids": [7]})
        assert (answer.status, "no entry 7" in str(answer.body)) == (404, True)


def test_the_worst_is_said_first_and_the_rest_is_counted() -> None:
    finding = Finding("failing", "raid", "md0 is broken")
    less = Finding("degraded", "clock", "the clock was set")
    assert sentence(Health("failing", [finding, less])) == "Failing: md0 is broken. And 1 more."
    assert sentence(Health("degraded", [less])) == "Degraded: the clock was set."
    assert sentence(Health("ok"), "accepting writes") == "Healthy: accepting writes."


def test_acknowledging_a_loss_does_not_hide_that_readers_are_refused(tmp_path: Path) -> None:
    with running_broker(tmp_path, {"log.segment.bytes": "2000"}) as broker:
        Rest(broker.admin).post("/topics", {"name": "orders"})
        producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 0})
        for _ in range(9):
            producer.produce("orders", b"x" * 600)
            assert producer.flush(10) == 0
    _, middle, *_ = sorted((tmp_path / "orders-0").glob("*.log"))
    middle.unlink()
    words = f"readers are refused at offsets {int(middle.stem)} to "
    with running_broker(tmp_path) as broker:
        (entry,) = Rest(broker.admin).get("/ledger")["entries"]
        told = healthz(broker)[1]["reasons"]
        assert sum(words in each for each in told) == 1, told
        assert run(broker, "ledger", "acknowledge", str(entry["id"]))[0] == 0
        (left,) = healthz(broker)[1]["reasons"]
        assert left.startswith(f"orders-0: {words}")
    with running_broker(tmp_path) as broker:
        status, told = healthz(broker)
        assert (status, told["status"], told["reasons"]) == (200, "degraded", [left])


def test_a_disk_that_does_not_answer_is_no_healthy_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_over = threading.Event()
    monkeypatch.setattr(health, "HANGS_S", 0.1)
    monkeypatch.setattr(health, "LOOK_S", 0.1)
    with running_broker(tmp_path) as broker:
        until(lambda: healthz(broker)[1]["status"] == "ok")  # a slow look is one that hangs, too
        monkeypatch.setattr(Machine, "look", lambda _: is_over.wait(DEADLINE_S))
        try:
            until(lambda: "have not answered for" in str(healthz(broker)[1]["reasons"]))
            assert healthz(broker)[0] == 503
        finally:
            is_over.set()
        until(lambda: healthz(broker)[1]["status"] == "ok")


def test_on_a_dead_disk_the_worst_are_named_and_the_rest_is_counted() -> None:
    texts = [f"t-{number}: failed" for number in range(10_000)]
    found = [*first_of("failing", "logs", texts, "partitions have failed")]
    assert len(found) == FINDINGS_TOLD + 1
    assert found[-1].text == f"{10_000 - FINDINGS_TOLD} more partitions have failed"
    assert [*first_of("failing", "logs", texts[:2], "")][-1].text == texts[1]


@pytest.mark.parametrize(
    ("largest", "names"),
    [
        ({"a": 1000}, []),
        ({"a": 2 * DAY_MS, "b": 3 * DAY_MS}, ["b"]),
        ({"kept": 9 * DAY_MS}, []),
    ],
    ids=["none", "the farthest of two", "a topic that does not expire"],
)
def test_records_from_the_future(largest: dict[str, int], names: list[str]) -> None:
    found = from_the_future(largest, lambda name: name != "kept", DAY_MS - 1)
    assert [each.text.split()[0] for each in found] == names


def test_a_file_system_of_which_nothing_is_proven_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "the data directory is on zfs, of which nothing is proven"
    it = Syncs("zfs", False, text)
    monkeypatch.setattr("appliance.data_dir.locked_dir.syncs_on", lambda path: it)
    with running_broker(tmp_path) as broker:
        status, told = healthz(broker)
        assert (status, told["status"], told["reasons"]) == (200, "degraded", [text])
        assert "appliance_file_system_proven 0" in metrics(broker)
    accepted = {"storage.file.system.accepted": "zfs"}
    with running_broker(tmp_path, accepted) as broker:
        assert healthz(broker)[1]["status"] == "ok"
        assert "appliance_file_system_proven 0" in metrics(broker)
