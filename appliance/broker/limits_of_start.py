"""What the process may have, at a start: descriptors for clients, threads, memory of its group."""

from __future__ import annotations

import os
from dataclasses import replace

from appliance.config import BrokerConfig, NetworkConfig
from appliance.data_dir import descriptor_budget
from appliance.machine import memory
from appliance.process import event_log

log = event_log.named("server")


def within_descriptors(config: BrokerConfig) -> NetworkConfig:
    """As many clients as there are descriptors for, beside those of the logs."""
    network = config.network
    found = descriptor_budget.take(network.max_connections, config.admin.connections_max)
    if network.max_connections <= found.clients:
        return network
    log.warning(
        "fewer connections than max.connections.total are taken: the rest of the descriptors is "
        "for the logs; raise LimitNOFILE of the service, or `ulimit -n`",
        wanted=network.max_connections, taken=found.clients, logs=found.logs,
        descriptors=found.limit,
    )  # fmt: skip
    return replace(network, max_connections=found.clients)


def threads_of(config: BrokerConfig) -> int:
    """That the settings ask for, and a start and full use make."""
    network = config.network
    return (
        network.network_threads + network.disk_threads + config.storage.sync_threads
        + config.control.threads
    )  # fmt: skip


def tell_of_memory(config: BrokerConfig) -> None:
    """A control group's limit below what clients may make the broker take: it would be killed."""
    network, limit = config.network, memory.look().limit_bytes
    wanted = memory.NEEDED_BYTES + network.queued_max_bytes + network.held_max_bytes
    if limit is not None and limit < wanted:
        log.warning(
            "the control group may have less memory than clients can make the broker take: give it "
            "more (MemoryMax, or the container's limit), or lower queued.max.request.bytes and "
            "queued.max.response.bytes",
            limit=limit, wanted=wanted,
        )  # fmt: skip


def tell_of_root() -> None:
    if os.geteuid() == 0:
        log.warning("running as root: a fault here could change all of this machine; "
                    "`sudo appliance install` makes a user and a service for it")
