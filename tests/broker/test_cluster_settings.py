"""Settings of brokers that topics of a cluster have, if they say nothing: which one is in force."""

from __future__ import annotations

import pytest

from appliance import config
from appliance.broker.cluster_settings import topic_defaults
from appliance.cluster.cluster import TopicDefaults
from appliance.config.dynamic_broker_config import BrokerConfigs, ConfigSource

LEAST, UNCLEAN = "min.insync.replicas", "unclean.leader.election.enable"
GIVEN = [f"{LEAST}=2", f"{UNCLEAN}=true"]


@pytest.mark.parametrize(
    ("pairs", "default", "own", "wanted", "source"),
    [
        ([], {}, {}, (1, False), ConfigSource.DEFAULT),
        (GIVEN, {}, {}, (2, True), ConfigSource.STATIC_BROKER),
        (GIVEN, {LEAST: "3", UNCLEAN: "false"}, {}, (3, False),
         ConfigSource.DYNAMIC_DEFAULT_BROKER),
        ([], {LEAST: "3"}, {LEAST: "4", UNCLEAN: "true"}, (4, True), ConfigSource.DYNAMIC_BROKER),
    ],
    ids=["nothing", "the operator", "all brokers", "this broker"],
)  # fmt: skip
def test_what_is_told_of_topics_is_what_they_have(
    pairs: list[str],
    default: dict[str, str],
    own: dict[str, str],
    wanted: tuple[int, bool],
    source: ConfigSource,
) -> None:
    configs = BrokerConfigs(config.load(pairs=pairs), own, default)
    assert topic_defaults(configs) == TopicDefaults(*wanted)
    told = {each.name: each for each in configs.topic_entries({})}
    assert (told[LEAST].value, told[UNCLEAN].value) == (str(wanted[0]), str(wanted[1]).lower())
    assert told[LEAST].source == told[UNCLEAN].source == source
    assert told[LEAST].synonyms[-1].value == "1"
