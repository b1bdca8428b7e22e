"""A mirror that keeps the source's offsets."""

from __future__ import annotations

import confluent_kafka as ck
import pytest
from confluent_kafka.admin import ConfigResource

from appliance.testing import RunningBroker
from tests.support.mirror_load import held
from tests.support.mirroring import aborted, admin, bounds, delete_before, make, once, produce, read

pytestmark = pytest.mark.first


def test_offsets_are_those_of_the_source(source: RunningBroker, target: RunningBroker) -> None:
    make(source, "t", 2)
    produce(source, "a", "b", "c", compression_type="zstd")
    aborted(source, "never", "ever")
    produce(source, "d", enable_idempotence=True)
    produce(source, "e", partition=1)
    once(source, target)
    assert read(target) == [(0, "a"), (1, "b"), (2, "c"), (6, "d")]
    assert held(target.bootstrap, "t", True) == held(source.bootstrap, "t", True)
    assert bounds(target) == bounds(source) == (0, 7)


@pytest.mark.parametrize("batches", [["abcdef"], [*"abcdef"]], ids=["within a batch", "between"])
def test_the_target_begins_where_the_source_does(
    batches: list[str], source: RunningBroker, target: RunningBroker
) -> None:
    make(source, "t")
    for each in batches:
        produce(source, *each, linger_ms="100")
    delete_before(source, 4)
    once(source, target)
    assert bounds(target) == bounds(source) == (4, 6)
    assert read(target) == [(4, "e"), (5, "f")]


def test_a_topic_of_which_everything_was_deleted_keeps_its_place(
    source: RunningBroker, target: RunningBroker
) -> None:
    make(source, "t")
    produce(source, *"abc")
    delete_before(source, 3)
    once(source, target)
    assert bounds(target) == (3, 3)
    produce(source, "d")
    once(source, target)
    assert read(target) == [(3, "d")]


def test_a_topic_that_is_no_mirrors_any_more_is_written_by_others(
    source: RunningBroker, target: RunningBroker
) -> None:
    make(source, "t")
    produce(source, "a")
    once(source, target)
    produce(target, "x")  # refused for good, so nothing waits in the end
    assert read(target) == [(0, "a")]
    resource = ConfigResource(ConfigResource.Type.TOPIC, "t")
    resource.add_incremental_config(ck.admin.ConfigEntry(
        "mirror.source", None, incremental_operation=ck.admin.AlterConfigOpType.DELETE))
    asked = admin(target)
    asked.incremental_alter_configs([resource])[resource].result(20)
    produce(target, "b")
    assert read(target) == [(0, "a"), (1, "b")]
