"""Transactional producers with little cost: one of them is a few numbers, and many share a
connection, whose requests are sent before the first of their responses is read."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from appliance.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
)
from appliance.protocol.messages.end_txn import EndTxnRequest
from appliance.protocol.messages.find_coordinator import FindCoordinatorRequest
from appliance.protocol.messages.init_producer_id import InitProducerIdRequest
from appliance.protocol.messages.produce import ProduceRequest
from appliance.record import _batch_builder
from bench.peers.brokers import Broker
from bench.peers.members import Link, decoded, frame

FIND_COORDINATOR, INIT, ADD, PRODUCE, END = (10, 3), (22, 3), (24, 3), (0, 7), (26, 3)
OF_TRANSACTIONS = 1
# The coordinator loads, is not available, is another broker; the former transaction ends
NOT_YET = (14, 15, 16, 51)
AGAIN_S = 0.002
TIMEOUT_MS = 60_000
LINKS = 16
VALUE = b"x" * 100
ALL = -1


@dataclass
class Transactional:
    id: str
    link: Link
    partition: int
    producer_id: int = -1
    epoch: int = -1
    sequence: int = 0


Ask = Callable[[Transactional], Any]


def each_asks(
    asking: Sequence[Transactional], key_version: tuple[int, int], ask: Ask,
    code: Callable[[Any], int],
) -> list[Any]:
    """All send at once; who is told to come again, does. The responses are in the order of those
    who asked."""
    answers: dict[str, Any] = {}
    left = list(asking)
    while left:
        for each in left:
            each.link.send(frame(key_version, ask(each)))
        for each in left:
            answers[each.id] = decoded(key_version, each.link.answer())
        codes = {each.id: code(answers[each.id]) for each in left}
        left = [each for each in left if codes[each.id] in NOT_YET]
        wrong = {name: each for name, each in codes.items() if each and each not in NOT_YET}
        if wrong:
            some = dict([*wrong.items()][:5])
            raise ValueError(f"request {key_version[0]}: {len(wrong)} errors, such as {some}")
        if left:
            time.sleep(AGAIN_S)
    return [answers[each.id] for each in asking]


def error_code(answer: Any) -> int:
    code: int = answer.error_code
    return code


def begun(broker: Broker, count: int, partitions: int) -> list[Transactional]:
    links = [Link(broker.address) for _ in range(LINKS)]
    made = [Transactional(f"{time.time_ns()}-{each}", links[each % LINKS], each % partitions)
            for each in range(count)]
    each_asks(made, FIND_COORDINATOR, lambda it: FindCoordinatorRequest(it.id, OF_TRANSACTIONS),
              error_code)
    ids = each_asks(made, INIT, lambda it: InitProducerIdRequest(it.id, TIMEOUT_MS), error_code)
    for each, told in zip(made, ids, strict=True):
        each.producer_id, each.epoch = told.producer_id, told.producer_epoch
    return made


def transact(producers: Sequence[Transactional], topic: str) -> None:
    """One transaction of each, with one record. All are open at once."""
    each_asks(producers, ADD, lambda it: AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=it.id, v3_and_below_producer_id=it.producer_id,
        v3_and_below_producer_epoch=it.epoch,
        v3_and_below_topics=[AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(
            topic, [it.partition])]),
        lambda told: told.results_by_topic_v3_and_below[0].results_by_partition[0]
        .partition_error_code)
    each_asks(producers, PRODUCE, lambda it: ProduceRequest(
        transactional_id=it.id, acks=ALL, timeout_ms=30_000, topic_data=[
            ProduceRequest.TopicProduceData(name=topic, partition_data=[
                ProduceRequest.PartitionProduceData(it.partition, batch_of(it))])]),
        lambda told: told.responses[0].partition_responses[0].error_code)
    each_asks(producers, END, lambda it: EndTxnRequest(it.id, it.producer_id, it.epoch, True),
              error_code)
    for each in producers:
        each.sequence += 1


def batch_of(one: Transactional) -> bytes:
    now_ms = time.time_ns() // 1_000_000
    return _batch_builder.batch([(now_ms, None, VALUE)], producer_id=one.producer_id,
                                producer_epoch=one.epoch, base_sequence=one.sequence,
                                transactional=True)


def closed(producers: Sequence[Transactional]) -> None:
    for link in {id(each.link): each.link for each in producers}.values():
        link.socket.close()
