"""The doctor of a running broker over REST, and what its disk does in a row."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from appliance.cli import settings_options
from appliance.cli.main import main
from appliance.machine import throughput
from appliance.testing import RunningBroker
from tests.support.rest import Rest

MIB = 1 << 20


def test_a_running_broker_answers_all_checks_of_its_machine(
    appliance_broker: RunningBroker,
) -> None:
    found = Rest(appliance_broker.admin).get("/doctor")
    verdicts = [each["verdict"] for each in found["checks"]]
    order = ["failing", "degraded", "unknown", "advice", "ok"]
    assert verdicts == sorted(verdicts, key=order.index)
    assert all(each["why"] for each in found["checks"])
    assert {"mount", "kernel", "clock", "dirty limits"} <= {
        each["name"] for each in found["checks"]
    }
    ports = {each["name"]: each["found"] for each in found["checks"] if "port" in each["name"]}
    assert (found["throughput"], found["disks"]) == (None, [])
    assert all("not by a broker" not in text for text in ports.values())


def test_the_command_beside_a_running_broker_knows_its_ports(
    appliance_broker: RunningBroker,
) -> None:
    at = ["--listen", appliance_broker.bootstrap, "--admin", str(appliance_broker.admin)]
    line = ["doctor", "--json", "--no-measure", "--data-dir"]

    def ports(directory: Path) -> set[str]:
        checks = json.loads(CliRunner().invoke(main, [*line, str(directory), *at]).stdout)["checks"]
        named = [each for each in checks if each["name"] in ("port admin", "port PLAINTEXT")]
        return {each["verdict"] for each in named}

    assert ports(appliance_broker.data_dir) <= {"ok", "advice"}  # it chose ports for clients
    assert ports(appliance_broker.data_dir.parent) == {"failing"}


def test_the_command_takes_the_settings_of_the_service(
    appliance_broker: RunningBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else it would look at the ports of a broker that nobody has."""
    settings = tmp_path / "appliance.toml"
    settings.write_text(
        f'"data.dir" = "{appliance_broker.data_dir}"\n'
        f'"admin.address" = "{appliance_broker.admin}"\n'
    )
    monkeypatch.setattr(settings_options, "SETTINGS", settings)
    found = CliRunner().invoke(main, ["doctor", "--json", "--no-measure"]).stdout
    (port,) = [each for each in json.loads(found)["checks"] if each["name"] == "port admin"]
    assert appliance_broker.admin.rpartition(":")[2] in port["found"]
    assert port["verdict"] in ("ok", "advice")


@pytest.mark.alone  # a disk on which others write may be slower in a row than at random places
def test_the_disk_is_measured_on_request(appliance_broker: RunningBroker) -> None:
    rest = Rest(appliance_broker.admin)
    refused = rest.ask("POST", "/doctor/measure", {"seconds": 3600})
    assert (refused.status, "wanted 0.1 to 60.0" in str(refused.body)) == (400, True)
    answer = rest.ask("POST", "/doctor/measure", {"seconds": 0.2})
    assert answer.status == 200
    rates = answer.body["throughput"]
    assert rates["linear_writes"] > rates["random_writes"] > 0
    assert rest.get("/doctor")["throughput"] == rates
    assert "write cache" in {each["name"] for each in answer.body["checks"]}


def test_a_measurement_leaves_no_file_and_ends_when_nobody_wants_it(tmp_path: Path) -> None:
    found = throughput.measure(tmp_path, 0.1, 4 * MIB)
    assert min(found) > 0
    with pytest.raises(throughput.Stopped):
        throughput.measure(tmp_path, 60, 4 * MIB, is_wanted=lambda: False)
    assert list(tmp_path.iterdir()) == []


def test_a_disk_without_room_is_not_measured(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="wanted"):
        throughput.measure(tmp_path, 1, 1 << 60)
