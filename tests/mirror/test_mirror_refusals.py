"""What no further try would change ends a mirror that has just started; and two sources."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from appliance.cli.main import main
from appliance.client.errors import RETRIABLE
from appliance.mirror import offset_map
from appliance.mirror.errors import TopicsRefused
from appliance.mirror.refusals import REMEDIES
from appliance.mirror.site import TopicPartition
from appliance.process.exit_codes import REFUSED
from appliance.testing import RunningBroker, running_broker
from tests.support.mirroring import (
    T0,
    admin,
    config,
    make,
    once,
    produce,
    read,
    running,
    site,
    until,
)

pytestmark = pytest.mark.first


def mirrored(source: RunningBroker, target: RunningBroker, *words: str) -> Result:
    """Without --once: it ends by itself."""
    ends = ["--from", source.bootstrap, "--to", target.bootstrap, "--topics", "t|u"]
    return CliRunner().invoke(main, ["mirror", *ends, *words])


def words_in(done: Result) -> str:
    assert isinstance(done.exception, SystemExit), done.exception
    return " ".join(done.output.split())


@pytest.mark.parametrize(
    ("settings", "words", "fact"),
    [
        ({"max.partitions.total": "1"}, ["--offsets", "keep"], "max.partitions.total"),
        ({"max.partitions.total": "1"}, ["--offsets", "map"], "max.partitions.total"),
        ({"max.transactional.ids.total": "1"}, ["--offsets", "map"], "max.transactional.ids.total"),
        ({"transaction.max.timeout.ms": "1000"}, ["--offsets", "map"], "commit_interval_ms"),
    ],
    ids=["no room for the topics", "none for its own", "no transactional ids", "transactions"],
)
def test_a_refusal_that_lasts_ends_it_and_says_what_to_change(
    settings: dict[str, str], words: list[str], fact: str, source: RunningBroker, tmp_path: Path
) -> None:
    make(source, "t", 2)
    produce(source, "a")
    with running_broker(tmp_path / "target", settings) as target:
        done = mirrored(source, target, *words)
    told = words_in(done)
    assert done.exit_code == REFUSED, told
    assert fact in told
    assert "again_in_ms" not in told


def test_two_sources_and_kept_offsets(
    source: RunningBroker, target: RunningBroker, tmp_path: Path
) -> None:
    make(source, "t")
    produce(source, "a")
    once(source, target)
    with running_broker(tmp_path / "other") as other, site(source) as first, site(other) as second:
        make(other, "t")
        produce(other, "b")
        kept = mirrored(other, target)
        assert kept.exit_code == REFUSED
        told = words_in(kept)
        assert f"has the records of cluster {first.cluster_id}, and this source is" in told
        assert f"cluster {second.cluster_id}. Where offsets are kept, a topic has one" in told
        assert "Delete" not in told  # as one does with a topic that was made anew
        mapped = mirrored(other, target, "--offsets", "map", "--name", "second")
        assert mapped.exit_code == REFUSED
        assert f"a mirror with kept offsets, of {first.cluster_id}/" in words_in(mapped)
    assert read(target) == [(0, "a")]


def test_two_sources_may_share_a_topic_under_two_names_if_offsets_are_mapped(
    source: RunningBroker, target: RunningBroker, tmp_path: Path
) -> None:
    """docs/mirror.md, "Two sources"."""
    make(source, "t")
    produce(source, *"abc")
    once(source, target, offsets="map", name="one")
    with running_broker(tmp_path / "other") as other:
        make(other, "t")
        produce(other, *"de")
        with pytest.raises(TopicsRefused, match="give this one another --name"):
            once(other, target, offsets="map", name="one")
        once(other, target, offsets="map", name="two")
        produce(other, "f")
        once(other, target, offsets="map", name="two")
    here = {value: offset for offset, value in read(target)}
    assert list(here) == list("abcdef")
    with site(target) as found:
        for name, offset, value in (("one", 2, "c"), ("two", 0, "d"), ("two", 1, "e")):
            topic = f"mirror.{name}.offsets"
            assert offset_map.translate(found, topic, T0, offset).target == here[value]


def test_one_topic_that_is_refused_stops_no_other_and_once_tells_it(
    source: RunningBroker, target: RunningBroker
) -> None:
    for topic in ("t", "u"):
        make(source, topic)
        produce(source, "a", topic=topic)
    make(target, "t")
    done = mirrored(source, target, "--once")
    assert done.exit_code == REFUSED
    assert "not mirrored: t: the target has a topic of that name that no mirror" in words_in(done)
    assert [value for _, value in read(target, TopicPartition("u", 0))] == ["a"]


def test_a_mirror_that_has_worked_goes_on_when_all_its_topics_are_refused(
    source: RunningBroker, target: RunningBroker
) -> None:
    make(source, "t")
    produce(source, "a")
    with running(config(source, target)) as mirror:
        until(lambda: mirror.progress.of(T0).position == 1, "it writes")
        let_others_write(target)
        until(lambda: "t" in mirror.progress.refused, "it is refused")
        until(lambda: not mirror.progress.partitions, "and left out")
        assert mirror.progress.is_connected


def let_others_write(target: RunningBroker) -> None:
    entry = ConfigEntry("mirror.source", "", incremental_operation=AlterConfigOpType.DELETE)
    resource = ConfigResource(ResourceType.TOPIC, "t", incremental_configs=[entry])
    asked = admin(target)
    asked.incremental_alter_configs([resource])[resource].result(20)


def test_no_refusal_is_both_lasting_and_for_now() -> None:
    assert not RETRIABLE & REMEDIES.keys()
