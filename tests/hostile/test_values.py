"""Well formed requests with numbers that no client would send."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from appliance.api.handlers import HANDLERS
from appliance.broker import client_metrics
from appliance.config import dynamic_broker_config, group_config, topic_config
from appliance.protocol import API
from appliance.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from appliance.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
)
from appliance.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from appliance.protocol.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from tests.hostile.generator import (
    Ground,
    ground,
    requests_at_their_extremes,
    served_versions,
)
from tests.hostile.witness import batch
from tests.support.serving import Serving
from tests.support.wire_client import WireClient, frame_of

ANSWER_S = 10.0
CREATE_PARTITIONS = 37


@pytest.fixture(scope="module")
def about(serving: Serving) -> Ground:
    return ground(serving.kafka)


def asked(key: int, about: Ground) -> Iterator[tuple[str, int, object]]:
    for version in served_versions(key):
        for what, request in requests_at_their_extremes(key, version, about):
            yield what, version, request


@pytest.mark.parametrize("key", HANDLERS, ids=lambda key: API[key].name)
def test_numbers_that_nobody_would_ask_for(broker: Serving, about: Ground, key: int) -> None:
    """Each gets a response in time or ends its connection; the fixture `broker` limits its cost."""
    count, slowest = 0, 0.0
    for what, version, request in asked(key, about):
        begin = time.monotonic()
        with WireClient(broker.kafka, timeout=ANSWER_S) as client:
            client.send(frame_of(request, key, version))
            if getattr(request, "max_wait_ms", 0) > 1000 or getattr(request, "acks", 1) == 0:
                continue  # the client sets the time that it waits for records
            try:
                client.receive()
            except (EOFError, ConnectionError):
                pass
            except TimeoutError:
                pytest.fail(f"no answer within {ANSWER_S:.0f} s: {what}")
        count, slowest = count + 1, max(slowest, time.monotonic() - begin)
    print(f"{count} requests, slowest {slowest:.3f} s")


@pytest.mark.parametrize("count", [2**31 - 1, 1_000_000])
def test_two_thousand_million_partitions_and_who_holds_them(
    client: WireClient, about: Ground, count: int
) -> None:
    """36 bytes that once made a list of 2^31 - 1 rows for a comparison with an empty one."""
    row = CreatePartitionsRequest.CreatePartitionsTopic(about.topic, count, [])
    client.send(frame_of(CreatePartitionsRequest(topics=[row]), CREATE_PARTITIONS, 0))
    (found,) = client.answer(CreatePartitionsResponse, CREATE_PARTITIONS, 0).results
    assert found.error_code == 44  # more than max.partitions.per.topic
    assert len(found.error_message or "") < 300


INCREMENTAL_ALTER_CONFIGS = 44
TOPIC, BROKER, CLIENT_METRICS, GROUP = 2, 4, 16, 32
KEYS = {
    TOPIC: topic_config.KEYS,
    BROKER: dynamic_broker_config.DYNAMIC,
    CLIENT_METRICS: client_metrics.KEYS,
    GROUP: group_config.KEYS,
}
NUMBERS = ["0", "1", "-1", "-2", str(2**31 - 1), str(2**31), str(2**63 - 1), str(-(2**63)),
           "9" * 20, "9" * 5000, "1e308", "nan", "inf", "0x10", "1_000"]  # fmt: skip
TEXTS = ["", " ", "," * 30_000, "a" + " " * 30_000 + "b", "a," * 15_000, "x" * 32_767,
         "x" * 40_000, "*", "\0", "client_id=(a+)+$", "client_id=" + "(" * 1000,
         "by_duration:P" + "9" * 5000 + "D",
         "by_duration:PT" + "9" * 30_000, "1:" * 15_000, "1:1," * 8_000]  # fmt: skip


def altered(client: WireClient, kind: int, name: str, key: str, values: list[str]) -> None:
    """Only validates for the broker itself, which other tests use; otherwise it alters. A request
    may name a config once, so each value has its own request."""
    Alter = IncrementalAlterConfigsRequest
    for value in values:
        resource = Alter.AlterConfigsResource(kind, name, [Alter.AlterableConfig(key, 0, value)])
        asked = Alter(resources=[resource], validate_only=kind == BROKER)
        client.send(frame_of(asked, INCREMENTAL_ALTER_CONFIGS, 1))
        (found,) = client.answer(
            IncrementalAlterConfigsResponse, INCREMENTAL_ALTER_CONFIGS, 1
        ).responses
        assert found.error_code in (0, 40, 42), (key, value[:100], found)


@pytest.mark.parametrize("kind", KEYS, ids=["topic", "broker", "client metrics", "group"])
def test_configs_that_nobody_would_set(broker: Serving, client: WireClient, kind: int) -> None:
    """Each value of each config is accepted or refused; a topic with an accepted one works."""
    name = {TOPIC: "configured", BROKER: "1"}.get(kind, "fuzz")
    if kind == TOPIC:
        client.create_topic(name)
    for key in KEYS[kind]:
        altered(client, kind, name, key, [*NUMBERS, *TEXTS])
    if kind == TOPIC:
        client.produce(batch(), topic=name)
        client.fetch_one(topic=name)


def test_lists_of_spaces(client: WireClient) -> None:
    """The time to split a list once grew with the square of its length: a request took minutes."""
    Alter = IncrementalAlterConfigsRequest
    change = Alter.AlterableConfig("cleanup.policy", 0, "a" + " " * 32_000 + "b")
    resource = [
        Alter.AlterConfigsResource(TOPIC, f"s{i}", [change]) for i in range(60)
    ]
    for each in resource:
        client.create_topic(each.resource_name)
    client.send(frame_of(Alter(resources=resource), INCREMENTAL_ALTER_CONFIGS, 1))
    found = client.answer(IncrementalAlterConfigsResponse, INCREMENTAL_ALTER_CONFIGS, 1).responses
    assert {each.error_code for each in found} == {40}


FOR_EVER = ["(a+)+$", "(a|aa)+$", "(.*a){30}$", "(" * 1000, "(?:a{100}){100}{100}", "(?=a)"]


def test_patterns_that_take_for_ever(client: WireClient) -> None:
    """For topics, transactional ids and client metrics: matched with 200 characters, or refused."""
    client.create_topic("a" * 200 + "-")
    codes = set()
    for version, pattern in enumerate(FOR_EVER):
        beat = ConsumerGroupHeartbeatRequest(
            f"pattern-{version}", "member", rebalance_timeout_ms=1000,
            subscribed_topic_regex=pattern, subscribed_topic_names=None, topic_partitions=[],
        )  # fmt: skip
        client.send(frame_of(beat, 68, 1))
        codes.add(client.answer(ConsumerGroupHeartbeatResponse, 68, 1).error_code)
        client.send(frame_of(ListTransactionsRequest(transactional_id_pattern=pattern), 66, 2))
        codes.add(client.answer(ListTransactionsResponse, 66, 2).error_code)
        altered(client, CLIENT_METRICS, "fuzz", "match", [f"client_id={pattern}"])
    assert codes == {0, 128}
