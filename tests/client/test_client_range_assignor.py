"""Who of a group reads what: a table of cases, and what holds for every case."""

from __future__ import annotations

import math

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from appliance.client.broker_partition import BrokerPartition
from appliance.client.range_assignor import StreamId, TopicPartition, assign, block
from appliance.client.subscription import Filter, Topics, parse

# partitions of each broker, streams of each consumer, and what each stream gets of topic "t"
CASES = {
    "one consumer has all": ({1: 3}, {"a": 1}, {"a-0": "1-0 1-1 1-2"}),
    "no consumer": ({1: 3}, {}, {}),
    "no partition": ({}, {"a": 1}, {}),
    "partitions of a broker stand together": (
        {2: 2, 1: 2, 10: 2},
        {"a": 1, "b": 1},
        {"a-0": "1-0 1-1 2-0", "b-0": "2-1 10-0 10-1"},
    ),
    "a broker for each consumer": (
        {1: 2, 2: 2, 3: 2},
        {"b": 1, "a": 1, "c": 1},
        {"a-0": "1-0 1-1", "b-0": "2-0 2-1", "c-0": "3-0 3-1"},
    ),
    "the last block is what is left": (
        {1: 7},
        {"a": 1, "b": 1, "c": 1},
        {"a-0": "1-0 1-1 1-2", "b-0": "1-3 1-4 1-5", "c-0": "1-6"},
    ),
    "blocks of two are used up before the last": (
        {1: 6},
        {"a": 1, "b": 1, "c": 1, "d": 1},
        {"a-0": "1-0 1-1", "b-0": "1-2 1-3", "c-0": "1-4 1-5"},
    ),
    "more consumers than partitions": (
        {1: 1, 2: 1},
        {"a": 1, "b": 1, "c": 1},
        {"a-0": "1-0", "b-0": "2-0"},
    ),
    "streams of a consumer stand together": (
        {1: 4, 2: 4},
        {"a": 3, "b": 1},
        {"a-0": "1-0 1-1", "a-1": "1-2 1-3", "a-2": "2-0 2-1", "b-0": "2-2 2-3"},
    ),
    "streams are in the order of their numbers": (
        {1: 11},
        {"a": 11},
        {f"a-{i}": f"1-{i}" for i in range(11)},
    ),
    "three brokers of four for five": (
        {1: 4, 2: 4, 3: 4},
        {"a": 1, "b": 1, "c": 1, "d": 1, "e": 1},
        {
            "a-0": "1-0 1-1 1-2",
            "b-0": "1-3 2-0 2-1",
            "c-0": "2-2 2-3 3-0",
            "d-0": "3-1 3-2 3-3",
        },
    ),
    "in a replicated cluster a number is enough": (
        {-1: 3},
        {"a": 1, "b": 1},
        {"a-0": "0 1", "b-0": "2"},
    ),
}


def partitions(brokers: dict[int, int]) -> list[BrokerPartition]:
    return [BrokerPartition(broker, n) for broker, count in brokers.items() for n in range(count)]


@pytest.mark.parametrize(("brokers", "consumers", "wanted"), CASES.values(), ids=CASES)
def test_the_table(
    brokers: dict[int, int], consumers: dict[str, int], wanted: dict[str, str]
) -> None:
    table = assign({"t": partitions(brokers)}, {name: {"t": n} for name, n in consumers.items()})
    got: dict[str, list[str]] = {}
    for of, stream in table.items():
        got.setdefault(str(stream), []).append(str(of.partition))
    assert {stream: " ".join(names) for stream, names in got.items()} == wanted


def test_a_consumer_takes_part_only_in_what_it_reads() -> None:
    topics = {name: partitions({1: 2}) for name in ("t", "u", "unread")}
    table = assign(topics, {"a": {"t": 1}, "b": {"t": 1, "u": 2}})
    assert {str(of): str(stream) for of, stream in table.items()} == {
        "t/1-0": "a-0",
        "t/1-1": "b-0",
        "u/1-0": "b-0",
        "u/1-1": "b-1",
    }


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])  # of a busy machine
@given(
    st.lists(st.integers(0, 9), max_size=6),
    st.lists(st.integers(0, 4), min_size=1, max_size=6).filter(any),
)
def test_every_partition_has_one_stream_and_blocks_are_whole(
    brokers: list[int], streams: list[int]
) -> None:
    all_of_them = partitions(dict(enumerate(brokers)))
    consumers = {f"host:{number}": count for number, count in enumerate(streams)}
    table = assign({"t": all_of_them}, {name: {"t": n} for name, n in consumers.items()})
    assert {of.partition for of in table} == set(all_of_them)
    assert [of.partition for of in table] == sorted(all_of_them)
    sizes = [[*table.values()].count(stream) for stream in sorted(set(table.values()))]
    size = math.ceil(len(all_of_them) / sum(consumers.values()))
    assert all(each == size for each in sizes[:-1])
    assert [*table.values()] == sorted(table.values()), "in the order of the streams"


def test_a_block_behind_the_last_is_empty() -> None:
    assert block([1, 2, 3], 2, 3) == [3]
    assert block([1, 2, 3, 4], 2, 3) == []


def test_names() -> None:
    assert str(TopicPartition("t", BrokerPartition(1, 0))) == "t/1-0"
    assert str(StreamId("host:uuid", 10)) == "host:uuid-10"


# Subscriptions


def test_subscriptions_are_written_and_read() -> None:
    written = {
        '{"a":2,"b":1}': Topics({"b": 1, "a": 2}),
        '{"pattern":"white_list","subscription":{"a.*|b":3},"version":1}': Filter("a.*|b", 3),
        '{"pattern":"black_list","subscription":{"a":1},"version":1}': Filter("a", 1, True),
    }
    assert {each.text(): parse(each.text()) for each in written.values()} == written


def test_a_filter_holds_against_whole_names() -> None:
    names = ["a", "ab", "b"]
    assert Filter("a", 2).streams(names) == {"a": 2}
    assert Filter("a.*", 1).streams(names) == {"a": 1, "ab": 1}
    assert Filter("a", 1, is_blacklist=True).streams(names) == {"ab": 1, "b": 1}
    assert Topics({"a": 2, "gone": 1}).streams(names) == {"a": 2}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "7",
        "[]",
        "{",
        "[" * 100_000,
        '{"t":0}',
        '{"t":"1"}',
        '{"t":true}',
        '{"":1}',
        '{"pattern":"static","subscription":{"t":1}}',
        '{"pattern":"white_list","subscription":{"(":1}}',
        '{"pattern":"white_list","subscription":{"a":1,"b":1}}',
        '{"pattern":"white_list","subscription":{}}',
        '{"pattern":"white_list","subscription":{"a":0}}',
    ],
)
def test_what_is_no_subscription_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"wanted|nested|regex|Expecting|JSON"):
        parse(text)
