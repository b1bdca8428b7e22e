"""Configs of groups: what may be set, and what it makes of the settings for all."""

from __future__ import annotations

from dataclasses import replace

import pytest

from appliance.config import BrokerConfig, ShareGroupsConfig, group_config
from appliance.config.config_key import ConfigInvalid
from appliance.config.group_config import reset_duration_ms
from appliance.errors import ApplianceError

CONFIG = BrokerConfig()


def test_a_share_group_has_what_was_set_for_it_over_what_was_set_for_all() -> None:
    base = ShareGroupsConfig(delivery_count_limit=7)
    configs = {
        "share.record.lock.duration.ms": "2000",
        "share.auto.offset.reset": "earliest",
        "share.isolation.level": "read_committed",
        "share.renew.acknowledge.enable": "false",
        "consumer.session.timeout.ms": "10000",
    }
    found = group_config.share_groups(configs, base)
    assert found == replace(
        base,
        record_lock_duration_ms=2000,
        auto_offset_reset="earliest",
        isolation_level="read_committed",
        renew_acknowledge_enable=False,
    )
    assert group_config.share_groups({"consumer.session.timeout.ms": "10000"}, base) is base


@pytest.mark.parametrize(
    ("name", "text", "wanted"),
    [
        ("share.record.lock.duration.ms", "999", "1000 to 3600000"),
        ("share.delivery.count.limit", "11", "2 to 10"),
        ("share.partition.max.record.locks", "99", "100"),
        ("share.session.timeout.ms", "60001", "6000 to 60000"),
        ("share.heartbeat.interval.ms", "999", "1000 to 15000"),
        ("share.isolation.level", "serializable", "'read_committed'"),
        ("share.auto.offset.reset", "none", "earliest, latest, or by_duration:"),
        ("share.auto.offset.reset", "by_duration:-PT1H", "earliest, latest, or by_duration:"),
        ("share.session.timeout.ms", "x", "a whole number of 32 bits$"),
        ("share.colour", "red", "share.record.lock.duration.ms"),
    ],
)
def test_what_a_group_may_not_have_is_refused_in_words(name: str, text: str, wanted: str) -> None:
    with pytest.raises(ApplianceError, match=wanted) as caught:
        group_config.validate({name: text}, CONFIG)
    assert caught.value.kafka_code == ConfigInvalid.kafka_code
    assert name.removeprefix("share.") in str(caught.value)


def test_a_heartbeat_must_come_more_often_than_a_session_ends() -> None:
    configs = {"share.session.timeout.ms": "6000", "share.heartbeat.interval.ms": "6000"}
    with pytest.raises(ConfigInvalid, match="wanted less than share"):
        group_config.validate(configs, CONFIG)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("by_duration:PT1H", 3_600_000),
        ("by_duration:P7D", 7 * 86_400_000),
        ("by_duration:p1dT2h3M4.5s", 93_784_500),
        ("by_duration:PT0.000999S", 0),
        ("by_duration:PT", None),
        ("by_duration:P", None),
        ("by_duration:P1DT", None),
        ("by_duration:P1Y", None),
        ("by_duration:PT1H30", None),
        ("by_duration:-PT1H", None),
        ("by_duration:", None),
        ("since:PT1H", None),
        ("latest", None),
    ],
)
def test_a_duration_is_read_as_java_reads_it(text: str, wanted: int | None) -> None:
    assert reset_duration_ms(text) == wanted
