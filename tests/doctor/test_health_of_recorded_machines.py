"""A running broker that is shown recorded machines: `/healthz`, `appliance health` and the doctor's
route tell what is wrong, whoever asks."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from appliance.broker import health
from appliance.cli.main import main
from appliance.machine.watch import Machine
from appliance.testing import running_broker
from tests.doctor.machines import ALL, WELL, machine_of
from tests.support.rest import Rest


class Shown:
    """In place of the broker's machine: the one that is shown now."""

    now: Machine

    def __getattr__(self, name: str) -> Any:
        return getattr(self.now, name)


def test_whoever_asks_is_told_what_is_wrong_with_a_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = Shown()
    shown.now = machine_of(WELL["raid10"], tmp_path / "first", is_guest=False)
    monkeypatch.setattr(health, "Machine", lambda *_: shown)
    with running_broker(tmp_path / "data") as broker:
        rest = Rest(broker.admin)
        for name, recorded in ALL.items():
            shown.now = machine_of(recorded, tmp_path / name, is_guest=False)
            levels = [each["verdict"] for each in rest.get("/doctor")["checks"]]
            wrong = [each for each in levels if each in ("failing", "degraded")]
            wanted = wrong[0] if wrong else "ok"
            status, found = healthz(broker.admin)
            result = CliRunner().invoke(main, ["health", "--admin", broker.admin])
            assert (name, found["status"]) == (name, wanted)
            assert (name, status) == (name, 503 if wanted == "failing" else 200)
            assert (name, result.exit_code) == (name, 10 if wrong else 0)
            assert (name, result.output.startswith("Healthy")) == (name, name in WELL)


def healthz(admin: str) -> tuple[int, dict[str, Any]]:
    try:
        with urllib.request.urlopen(f"http://{admin}/healthz", timeout=10) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as refused:
        return refused.code, json.load(refused)
