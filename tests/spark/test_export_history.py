"""Exports of a broker that was restored from an older backup, and whose log has grown since. Plans
alone, so without a JVM."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from appliance.testing import RunningBroker
from appliance_spark.export_broker import AdminPort
from appliance_spark.export_layout import ExportFailed
from tests.spark.test_export_plan import Planned
from tests.support.backups import Backups, make_topic, numbered, produce

TOPIC = "clicks"


@pytest.fixture
def backups(tmp_path: Path) -> Backups:
    return Backups(tmp_path)


@pytest.fixture
def made(appliance_broker: RunningBroker, backups: Backups) -> Planned:
    """The backup has 50 records, the target 60."""
    make_topic(appliance_broker, TOPIC)
    produce(appliance_broker, TOPIC, numbered(0, 50))
    backups.create(appliance_broker)
    made = Planned(AdminPort(appliance_broker.admin), TOPIC)
    made.run()
    produce(appliance_broker, TOPIC, numbered(50, 60))
    assert made.run() == [(50, 60)]
    assert made.run() == [(60, 60)]
    return made


@contextmanager
def restored(made: Planned, backups: Backups, count: int) -> Iterator[Planned]:
    with backups.restored() as broker:
        produce(broker, TOPIC, numbered(50, 50 + count, "other"))
        made.port = AdminPort(broker.admin)
        yield made


def test_a_log_that_was_restored_and_has_passed_the_position_is_refused(
    made: Planned, backups: Backups
) -> None:
    with restored(made, backups, 20):
        with pytest.raises(ExportFailed, match="offsets 50 to 59 have other records than this"):
            made.run()
        assert made.run(accept_loss=True) == [(60, 70)]
        (loss,) = made.manifest["topics"][TOPIC]["losses"]
        assert loss["others"] == [50, 60]
        assert made.run() == [(70, 70)]


def test_a_log_that_was_restored_and_ends_before_the_position_is_refused(
    made: Planned, backups: Backups
) -> None:
    with restored(made, backups, 5):
        for accept_loss in (False, True):
            with pytest.raises(ExportFailed, match="ends at 55, before the position 60"):
                made.run(accept_loss=accept_loss)


def test_what_was_exported_before_the_backup_is_no_reason_to_refuse(
    appliance_broker: RunningBroker, backups: Backups
) -> None:
    make_topic(appliance_broker, TOPIC)
    produce(appliance_broker, TOPIC, numbered(0, 50))
    made = Planned(AdminPort(appliance_broker.admin), TOPIC)
    made.run()
    backups.create(appliance_broker)
    with restored(made, backups, 20):
        assert made.run() == [(50, 70)]


def test_a_mark_of_another_position_is_not_believed(made: Planned, backups: Backups) -> None:
    """An older version has gone on since, and left it."""
    made.manifest["topics"][TOPIC]["marks"]["0"]["end"] = 59
    with restored(made, backups, 20):
        assert made.run() == [(60, 70)]
