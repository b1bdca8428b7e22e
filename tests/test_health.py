"""One place decides what is true; whoever asks, however they ask, hears the same words."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from appliance.catalog import NAME, Catalog
from appliance.cli import main
from appliance.health import Finding, Health, from_the_future, sentence
from appliance.ledger import Damage, Ledger
from appliance.machine.syncs import Syncs
from appliance.testing import RunningBroker, running_broker
from tests.support.rest import Rest

DAY_MS = 86_400_000
LOST = Damage("orders", 3, 100, 405, "the directory is gone")
WORDS = "lost orders-3: offsets 100 to 405: the directory is gone (found "


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
    Ledger(catalog).note([LOST])
    catalog.close()
    with running_broker(tmp_path) as broker:
        status, told = healthz(broker)
        assert (status, told["status"], told["losses"]) == (200, "degraded", 1)
        (reason,) = told["reasons"]
        assert reason.startswith(WORDS)
        health = Rest(broker.admin).get("/health")
        assert health["sentence"] == f"Degraded: {reason}."
        assert health["findings"] == [{"level": "degraded", "area": "ledger", "text": reason}]
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
    monkeypatch.setattr("appliance.log_dir.syncs_on", lambda path: it)
    with running_broker(tmp_path) as broker:
        status, told = healthz(broker)
        assert (status, told["status"], told["reasons"]) == (200, "degraded", [text])
        assert "appliance_file_system_proven 0" in metrics(broker)
