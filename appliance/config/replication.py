"""Followers: how they fetch from their leaders, and how brokers of a cluster know each other."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from appliance.config.setting import KIB, MIB, SECOND_MS, Part, setting
from appliance.config.tls import NO_FILE

RACK_AWARE = "org.apache.kafka.common.replica.RackAwareReplicaSelector"


@dataclass(frozen=True)
class ReplicationConfig(Part):
    """Of a cluster (zookeeper.connect): how many replicas there are, and how a broker
    follows: by one thread and one connection for each broker that it follows."""

    factor: int = setting(
        "default.replication.factor",
        3,
        "How many replicas the partitions of a topic have whose creator does not say, and of the "
        "broker's own topics: as many, or as many brokers as live then, and the rest when more do. "
        "Without a cluster it is 1.",
        minimum=1,
        maximum=32,
        default_words="3, or 1 without a cluster",
    )
    min_insync: int = setting(
        "min.insync.replicas",
        1,
        "How many replicas must be in sync, or all where a partition has fewer: with less nothing "
        "counts, and acks=all is refused. Of topics that say nothing. Without a cluster it has no "
        "effect: acks=all waits for the disk.",
        minimum=1,
        maximum=2**31 - 1,
    )
    is_unclean: bool = setting(
        "unclean.leader.election.enable",
        False,
        "Of a cluster: whether anybody leads a partition rather than nobody when all of its "
        "in-sync replicas are dead. That loses records. Of topics that say nothing.",
    )
    lag_max_ms: int = setting(
        "replica.lag.time.max.ms",
        10 * SECOND_MS,
        "How long a follower may not have had all of its leader's records before it leaves the "
        "ISR. Until then acks=all waits for it. One whose broker is gone leaves at once.",
        minimum=100,
        maximum=600 * SECOND_MS,
    )

    is_rebalanced: bool = setting(
        "auto.leader.rebalance.enable",
        True,
        "Whether preferred leaders, the first replicas of partitions, lead again by themselves "
        "after they were away. The controller sees to it.",
    )
    imbalance_interval_s: int = setting(
        "leader.imbalance.check.interval.seconds",
        300,
        "How often the controller looks whether preferred leaders are to lead again.",
        minimum=1,
        maximum=86_400,
    )
    imbalance_percentage: int = setting(
        "leader.imbalance.per.broker.percentage",
        10,
        "How much of the partitions of which a broker is the preferred leader others may lead.",
        minimum=0,
        maximum=100,
    )
    selector: str = setting(
        "replica.selector.class",
        "",
        "Whether a leader sends consumers that say where they are (client.rack) to a follower in "
        "their rack (broker.rack), if one there is in sync and has what they ask for.",
        choices=("", RACK_AWARE),
        default_words="they are served by leaders",
    )

    inter_broker_listener: str = setting(
        "inter.broker.listener.name",
        "",
        "The listener by which brokers of a cluster ask each other; each has one of this name. "
        "With TLS this broker shows its certificate of the listener, and asks for one that its "
        "ssl.truststore.location has signed, for the host that is advertised.",
        default_words="the first of listeners",
    )
    mechanism: str = setting(
        "sasl.mechanism.inter.broker.protocol",
        "SCRAM-SHA-512",
        "How this broker logs in at others, if that listener wants a login.",
        choices=("SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN"),
    )
    user: str = setting(
        "inter.broker.user",
        "",
        "As whom it logs in. It needs the right to ClusterAction on the cluster, or is one of "
        "super.users.",
        default_words="none",
    )
    password_file: Path = setting(
        "inter.broker.password.file",
        NO_FILE,
        "A file with one line, that user's password, which only its owner may read (mode 0600). It "
        "is read again for each login.",
        default_words="none",
    )

    fetch_max_bytes: int = setting(
        "replica.fetch.max.bytes",
        4 * MIB,
        "The most that a follower fetches of one partition at a time, but always at least one "
        "batch. Kafka's 1 MiB is for followers that do not wait for their disk: here one sync "
        "covers what one response brought, and more of it.",
        minimum=KIB,
        maximum=2**31 - 16,
    )
    fetch_response_max_bytes: int = setting(
        "replica.fetch.response.max.bytes",
        16 * MIB,
        "The most that a follower fetches at a time from one broker. It is kept in memory once for "
        "each broker that is followed.",
        minimum=KIB,
        maximum=2**31 - 16,
    )
    fetch_wait_max_ms: int = setting(
        "replica.fetch.wait.max.ms",
        500,
        "How long a fetch of a follower waits at its leader where there is nothing new. A leader "
        "knows by it that the follower lives, and the follower learns how far all have come.",
        minimum=1,
        maximum=60 * SECOND_MS,
    )
    fetch_backoff_ms: int = setting(
        "replica.fetch.backoff.ms",
        SECOND_MS,
        "The longest that a follower waits before it asks again for a partition that its leader "
        "refused, or for a connection. It begins with 20 ms and doubles: after an election the two "
        "hear of it within moments of each other.",
        minimum=20,
        maximum=60 * SECOND_MS,
    )
    socket_timeout_ms: int = setting(
        "replica.socket.timeout.ms",
        30 * SECOND_MS,
        "How long a follower waits for a connection, or for the next piece of a response, before "
        "it connects anew. Longer than replica.fetch.wait.max.ms.",
        minimum=100,
        maximum=600 * SECOND_MS,
    )
