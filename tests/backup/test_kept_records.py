"""Damage at the broker: what no backup has is told, and what an earlier one has is kept."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from appliance.backup.errors import TopicGone
from appliance.backup.point import of_json
from appliance.backup.restoration import Restoration
from appliance.cli.remote.backup_source import BrokerSource
from appliance.cli.remote.rest import Rest
from appliance.testing import RunningBroker, running_broker
from tests.support.backup_targets import target_in
from tests.support.backups import SMALL_SEGMENTS, Backups, make_topic, numbered, produce, values
from tests.support.shell import Shell


def damage(broker: RunningBroker, topic: str, text: bytes) -> None:
    """A bit of the batch with this text."""
    for path in (broker.data_dir / f"{topic}-0").glob("*.log"):
        data = bytearray(path.read_bytes())
        if text in data:
            data[data.index(text) + 20] ^= 1
            path.write_bytes(data)
            return
    raise AssertionError(f"{text!r} is in no file of {topic}")


def in_small_batches(broker: RunningBroker, topic: str) -> None:
    make_topic(broker, topic, 1, SMALL_SEGMENTS)
    for number in range(0, 200, 10):
        produce(broker, topic, numbered(number, number + 10))


def test_damage_at_the_broker_is_told_and_the_rest_is_backed_up(
    appliance_broker: RunningBroker, backups: Backups
) -> None:
    in_small_batches(appliance_broker, "clicks")
    damage(appliance_broker, "clicks", b"v00015")
    made = backups.made(appliance_broker)
    assert (made["damaged"], made["kept"]) == (
        ["clicks-0: offsets 10 to 19 are damaged or gone at the broker"], []
    )  # fmt: skip
    assert made["is_whole"], "nothing that the broker has is missing"
    told = Shell(appliance_broker.admin).out("backup create", "--target", backups.target)
    assert "what the broker has of all that was acknowledged" in told, "told again, without 10"
    assert "but for damage" in Shell("").out("backup list --target", backups.target)
    with backups.restored() as broker:
        assert values(broker, "clicks") == [*numbered(0, 10), *numbered(20, 200)]


def test_a_restore_tells_what_its_backup_lacks(
    appliance_broker: RunningBroker, backups: Backups
) -> None:
    in_small_batches(appliance_broker, "clicks")
    in_small_batches(appliance_broker, "other")
    damage(appliance_broker, "clicks", b"v00015")
    damaged = backups.made(appliance_broker)["damaged"]
    assert len(damaged) == 1
    line = ("backup restore", "--target", backups.target, "--data-dir")
    told = Shell("").run(*line, str(backups.folder / "all"))
    assert f"damaged: {damaged[0]}" in told.output
    told = Shell("").json(*line, str(backups.folder / "one"), "--topic", "clicks")
    assert (told["damaged"], told["missing"]) == (damaged, [])
    assert Shell("").json(*line, str(backups.folder / "two"), "--topic", "other")["damaged"] == []
    manifest = target_in(backups.target).newest()
    away = replace(manifest, missing=("clicks-0 is not served: its log is broken", "other-0: why"))
    restoration = Restoration(target_in(backups.target), away, backups.folder / "x", ["clicks"])
    assert restoration.run().missing == away.missing[:1]


def test_a_broker_is_asked_for_the_holes_of_a_range(appliance_broker: RunningBroker) -> None:
    in_small_batches(appliance_broker, "clicks")
    for text in (b"v00015", b"v00035", b"v00115"):
        damage(appliance_broker, "clicks", text)
    assert Shell(appliance_broker.admin).run("scrub clicks").exit_code == 10
    source = BrokerSource(Rest(appliance_broker.admin))
    (log,) = [each for each in of_json(source.take_point()).logs if each.topic == "clicks"]
    assert source.holes(log, 0, 200) == [(10, 20), (30, 40), (110, 120)] == [*log.holes]
    assert source.holes(log, 20, 110) == [(30, 40)]
    with pytest.raises(TopicGone):
        source.holes(replace(log, topic="none"), 0, 200)


def test_what_is_damaged_after_a_backup_is_kept_by_all_that_follow(
    appliance_broker: RunningBroker, backups: Backups
) -> None:
    in_small_batches(appliance_broker, "clicks")
    backups.create(appliance_broker)
    damage(appliance_broker, "clicks", b"v00015")  # within a sealed segment
    damage(appliance_broker, "clicks", b"v00195")  # the newest batch, in the one that is written
    produce(appliance_broker, "clicks", numbered(200, 210))
    assert Shell(appliance_broker.admin).run("scrub clicks").exit_code == 10
    for number in range(3):
        made = backups.create(appliance_broker, "--keep", "1")
        assert (made["damaged"], len(made["kept"])) == ([], 2), made
        assert made["kept"][0].startswith("clicks-0: offsets 10 to 19 are damaged"), made
        assert len(made["removed"]) == 1
        produce(appliance_broker, "clicks", numbered(210 + number, 211 + number))
    assert backups.verify()[0] == 0
    with backups.restored() as broker:
        assert values(broker, "clicks") == numbered(0, 212)


@pytest.mark.parametrize("gone", [(0,), (1,), (0, 1)], ids=str)
def test_segments_that_are_gone_are_kept(
    gone: tuple[int, ...], tmp_path: Path, backups: Backups
) -> None:
    data = tmp_path / "data"
    with running_broker(data) as broker:
        in_small_batches(broker, "clicks")
        backups.create(broker)
    files = sorted((data / "clicks-0").glob("*.log"))
    for each in gone:
        files[each].unlink()
    with running_broker(data) as broker:
        produce(broker, "clicks", numbered(200, 210))
        for _ in range(2):
            made = backups.create(broker, "--keep", "1")
            assert (made["damaged"], len(made["kept"])) == ([], 1), made
        with backups.restored() as restored:
            assert values(restored, "clicks") == numbered(0, 210)


def test_records_of_another_history_are_not_kept(
    appliance_broker: RunningBroker, backups: Backups
) -> None:
    in_small_batches(appliance_broker, "clicks")
    backups.create(appliance_broker)
    with backups.restored() as other:
        for broker, text in ((appliance_broker, "v"), (other, "w")):
            for number in range(200, 300, 10):
                produce(broker, "clicks", numbered(number, number + 10, text))
        backups.create(appliance_broker)
        damage(other, "clicks", b"w00215")
        found = backups.made(other)
        assert (found["damaged"], found["kept"]) == (
            ["clicks-0: offsets 210 to 219 are damaged or gone at the broker"], []
        )  # fmt: skip


def test_a_compacted_log_keeps_nothing_of_earlier_backups(
    tmp_path: Path, backups: Backups
) -> None:
    """A key that was deleted since would come back."""
    settings = {"log.cleaner.backoff.ms": "3600000"}  # it puts no files in the place of others
    with running_broker(tmp_path / "data", settings) as broker:
        in_small_batches(broker, "clicks")
        backups.create(broker)
        Shell(broker.admin).out("topic alter clicks -c cleanup.policy=compact")
        damage(broker, "clicks", b"v00015")
        made = backups.made(broker)
        assert (len(made["damaged"]), made["kept"]) == (1, [])
