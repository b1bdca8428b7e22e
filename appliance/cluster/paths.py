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
    /appliance/reasons/N                   ephemeral: why broker N cannot follow others
    /appliance/facts                       users, rules, settings: which set, and its last changes
    /appliance/fact_sets/ID/KIND/NAME      one of them: `fact_nodes.py`
"""

from __future__ import annotations

import urllib.parse
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
REASONS = "/appliance/reasons"
FACTS, FACT_SETS = "/appliance/facts", "/appliance/fact_sets"

FOLDERS = (
    LIVES, IDS, TOPICS, TOPIC_CONFIGS, TOPIC_IDS, DELETIONS, REQUESTS, CHANGES, REASONS, FACT_SETS,
)  # fmt: skip


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


def reasons(node_id: int) -> str:
    return f"{REASONS}/{node_id}"


def fact_set(folder: str, kind: str = "") -> str:
    return f"{FACT_SETS}/{folder}/{kind}" if kind else f"{FACT_SETS}/{folder}"


def fact(folder: str, kind: str, name: str) -> str:
    """Names may have any letter, and "." alone is none for ZooKeeper."""
    quoted = urllib.parse.quote(name, safe=",:=", errors="surrogatepass")
    return f"{fact_set(folder, kind)}/{quoted.replace('.', '%2E')}"


def fact_name(node: str) -> str:
    return urllib.parse.unquote(node, errors="surrogatepass")


def number_in(name: str) -> int | None:
    """The number of a sequential node: `c0000000007` is 7."""
    digits = name[1:]
    return int(digits) if digits.isascii() and digits.isdecimal() and len(digits) == 10 else None
