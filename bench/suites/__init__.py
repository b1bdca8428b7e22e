"""The comparisons, a file for each kind of work. `python -m bench list` lists them."""

from __future__ import annotations

from bench.peers.turns import Suites
from bench.suites import (
    crowds,
    durable,
    fairness,
    groups,
    growth,
    latency,
    other_clients,
    other_protocols,
    reading,
    replicated,
    requests,
    restart,
    spark,
    writing,
)

SUITES: Suites = {
    suite.__name__: suite
    for suite in (
        writing.produce, writing.codecs, writing.partitions, writing.ceiling,
        reading.consume, reading.cold, reading.fan_out,
        requests.requests,
        latency.latencies, latency.loaded_latencies,
        durable.durable,
        replicated.replicated,
        other_clients.java_defaults, other_clients.go, other_clients.node,
        other_clients.rust, other_clients.aiokafka,
        crowds.connections, crowds.topics, crowds.thousands,
        fairness.fairness,
        groups.groups,
        spark.spark,
        other_protocols.others,
        restart.start, restart.idle, restart.recovery,
        growth.growth,
    )
}
