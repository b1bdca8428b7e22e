"""A name that is on a command line twice is refused, with the name: else the last value alone would
count, in silence."""

from __future__ import annotations

from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from appliance.cli.cluster import urls
from appliance.cli.main import main
from appliance.cli.remote.topic import values_of
from appliance.client.config import ConfigInvalid
from appliance.client.security_config import of_pairs
from appliance.config import SettingInvalid, load
from appliance.config.given_twice import given_twice
from appliance.mirror.command import all_parsed
from appliance.zookeeper.server import ZooKeeperUnavailable, settings_in


def test_the_first_that_was_there_before_is_told() -> None:
    assert given_twice("abcb") == "b"
    assert given_twice("abc") is None


@pytest.mark.parametrize("pairs", [
    ["num.partitions=3", "num.partitions=4"],
    ["num.partitions=3", "data.dir=x", " num.partitions=3"],
])  # fmt: skip
def test_a_setting_of_the_broker(pairs: list[str]) -> None:
    with pytest.raises(SettingInvalid, match=r"--set num\.partitions: given twice, wanted once"):
        load(pairs=pairs)


def test_another_source_still_wins_over_one_before(tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    file.write_text("num.partitions = 3\n")
    environment = {"APPLIANCE_NUM_PARTITIONS": "4"}
    assert load(file, environment, ["num.partitions=5"]).topics.num_partitions == 5


def test_a_broker_of_a_cluster() -> None:
    page = "1=http://a:1"
    with pytest.raises(SettingInvalid, match=r"cluster\.admin\.urls: broker 1 is given twice"):
        load(pairs=[f"cluster.admin.urls={page},1=http://b:1"])
    nothing: click.Context = click.Context(main)
    with pytest.raises(click.BadParameter, match=r"broker 1 is given twice"):
        urls(nothing, click.Option(["--admin"]), (page, "01=http://b:1"))


def test_a_config_of_a_topic() -> None:
    assert values_of(["a=1", "b=1"]) == {"a": "1", "b": "1"}
    with pytest.raises(click.BadParameter, match=r"retention\.ms is given twice, wanted once"):
        values_of(["retention.ms=1", "a=1", "retention.ms=2"])


def test_a_setting_of_a_client_a_mirror_and_a_zookeeper() -> None:
    with pytest.raises(ConfigInvalid, match=r"--set sasl\.username: given twice, wanted once"):
        of_pairs(["sasl.username=a", "sasl.username=b"], "--set ")
    with pytest.raises(ConfigInvalid, match=r"--set source\.sasl.username: given twice"):
        all_parsed(["source.sasl.username=a", "source.sasl.username=b"])
    with pytest.raises(click.UsageError, match=r"--set name: given twice, wanted once"):
        all_parsed(["name=a", "name=b"])
    with pytest.raises(ZooKeeperUnavailable, match=r"'snapCount' is given twice, wanted once"):
        [*settings_in(["snapCount=1", "x=1", "snapCount=2"])]


@pytest.mark.parametrize(("words", "name"), [
    (["quota", "set", "producer_byte_rate=1", "producer_byte_rate=2", "--user", "ann"],
     "producer_byte_rate"),
    (["topic", "create", "t", "-c", "retention.ms=1", "-c", "retention.ms=2"], "retention.ms"),
    (["topic", "alter", "t", "-c", "retention.ms=1", "-c", "retention.ms=2"], "retention.ms"),
    (["config", "set", "log.retention.ms=1", "log.retention.ms=2"], "log.retention.ms"),
    (["group", "reset", "g", "latest", "--topic", "t", "--topic", "t"], "t"),
])  # fmt: skip
def test_commands_say_which(words: list[str], name: str) -> None:
    """Before they ask a broker: there is none."""
    told = CliRunner().invoke(main, words)
    assert told.exit_code == 2
    assert f"{name} is given twice" in told.output or f"{name}: given twice" in told.output
