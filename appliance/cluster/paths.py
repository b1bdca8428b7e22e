"""Where things are in ZooKeeper, below the path of zookeeper.connect. What Kafka 0.8 to 3.x had has
its names; lives, notices and requests are our own.

    /cluster/id                            the cluster's id, written by its first broker
    /brokers/lives/N                       its version is the life of broker N
    /brokers/ids/N                         ephemeral: broker N lives
    /controller, /controller_epoch         who decides, and how many did so far
    /brokers/topics/T                      partitions and their replicas
    /brokers/topics/T/partitions/P/state   leader, epoch, in-sync replicas
    /config/topics/T
    /appliance/topics/ID                   there as long as the topic with this id: rule 12
    /admin/delete_topics/T                 a request to the controller
    /latest_producer_id_block              the producer ids that were given last
    /appliance/requests/r...               other requests to it
    /appliance/changes/c...                what changed in a round: `notices.py`
"""

from __future__ import annotations

import uuid

from appliance.catalog import kafka_uuid

CLUSTER_ID = "/cluster/id"
LIVES = "/brokers/lives"
IDS = "/brokers/ids"
TOPICS = "/brokers/topics"
CONTROLLER, CONTROLLER_EPOCH = "/controller", "/controller_epoch"
TOPIC_CONFIGS = "/config/topics"
DELETIONS = "/admin/delete_topics"
PRODUCER_IDS = "/latest_producer_id_block"
TOPIC_IDS = "/appliance/topics"
REQUESTS = "/appliance/requests"
CHANGES = "/appliance/changes"

FOLDERS = (LIVES, IDS, TOPICS, TOPIC_CONFIGS, TOPIC_IDS, DELETIONS, REQUESTS, CHANGES)


def topic(name: str) -> str:
    return f"{TOPICS}/{name}"


def topic_id(value: bytes) -> str:
    return f"{TOPIC_IDS}/{kafka_uuid.text_of(uuid.UUID(bytes=value))}"


def partitions(name: str) -> str:
    return f"{TOPICS}/{name}/partitions"


def partition(name: str, number: int) -> str:
    return f"{TOPICS}/{name}/partitions/{number}"


def state(name: str, number: int) -> str:
    return f"{TOPICS}/{name}/partitions/{number}/state"


def config(name: str) -> str:
    return f"{TOPIC_CONFIGS}/{name}"


def number_in(name: str) -> int | None:
    """The number of a sequential node: `c0000000007` is 7."""
    digits = name[1:]
    return int(digits) if digits.isascii() and digits.isdecimal() and len(digits) == 10 else None
