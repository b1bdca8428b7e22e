"""The settings of a mirror with their reasons; docs/mirror.md has the table."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from appliance.client.config import ClientConfig
from appliance.client.errors import ConfigInvalid
from appliance.client.security_config import SecurityConfig
from appliance.client.setting import MIB, check, rows_of, setting
from appliance.process import patterns

NAME = re.compile(r"[a-zA-Z0-9_-]{1,100}")  # becomes part of topic names
INT32_MAX, INT64_MAX = 2**31 - 1, 2**63 - 1  # of fields on the wire
DAY_MS = 86_400_000
IN_FLIGHT_MAX = 5  # Kafka detects a duplicate only among a producer's last five batches


@dataclass(frozen=True, kw_only=True)
class MirrorConfig:
    source: str = setting("", "`--from`: `host:port,host:port` of the source cluster.")
    target: str = setting("", "`--to`: `host:port,host:port` of the target cluster.")
    topics: str = setting("", "The topics to mirror: a regular expression for the whole name.")
    groups: str = setting(
        "",
        "The consumer groups whose committed offsets are copied: a regular expression for the "
        "whole name. Only if the target keeps offsets; empty: none.",
    )
    name: str = setting(
        "mirror",
        "Two mirrors to one target need two names: they name positions, map and transactions.",
    )
    delivery: str = setting(
        "exactly-once",
        "`at-least-once` uses no transactions; a kill repeats what was sent in the last "
        "`commit_interval_ms`. A target that keeps offsets is exactly once either way.",
        choices=("exactly-once", "at-least-once"),
    )
    offsets: str = setting(
        "auto",
        "`keep` gives records the same offsets as in the source and needs an appliance as target; "
        "`map` records which offset became which. `auto` keeps them if the target can.",
        choices=("auto", "keep", "map"),
    )
    sync_configs: bool = setting(
        True, "Configs that are set for a topic in the source are set in the target too."
    )
    fetch_max_bytes: int = setting(
        8 * MIB, "Size of one fetch response.", minimum=1, maximum=INT32_MAX
    )
    fetch_partition_max_bytes: int = setting(
        MIB,
        "Per partition of it. A larger batch still comes whole.",
        minimum=1,
        maximum=INT32_MAX,
    )
    fetch_max_wait_ms: int = setting(
        500,
        "How long a source broker delays a response without records.",
        minimum=0,
        maximum=DAY_MS,
    )
    inbox_bytes: int = setting(
        32 * MIB,
        "Batches that are read and not sent yet; above it reading waits.",
        minimum=1,
        maximum=INT64_MAX,
    )
    request_max_bytes: int = setting(
        MIB,
        "Size of a produce request. Kafka's default limit is 100 MiB; above 1 MiB is no faster.",
        minimum=1,
        maximum=INT32_MAX,
    )
    commit_interval_ms: int = setting(
        1000,
        "With a map: the interval of writing position and map, and the length of a transaction. "
        "It delays the readers of committed records in the target.",
        minimum=1,
        maximum=DAY_MS,
    )
    refresh_interval_ms: int = setting(
        10_000,
        "Interval of comparing topics, partitions and configs.",
        minimum=100,
        maximum=DAY_MS,
    )
    retry_backoff_ms: int = setting(
        200,
        "The pause after a failure; it doubles with each further failure.",
        minimum=1,
        maximum=DAY_MS,
    )
    retry_backoff_max_ms: int = setting(
        30_000,
        "The longest pause. A link that recovers is used again after at most this time.",
        minimum=1,
        maximum=DAY_MS,
    )
    request_timeout_ms: int = setting(
        30_000,
        "How long a response may take before the round fails.",
        minimum=1,
        maximum=DAY_MS,
    )
    stop_timeout_ms: int = setting(
        5000,
        "How long a stopping mirror waits for open requests; then it cuts the connections. It "
        "sends unanswered batches again at the next start.",
        minimum=0,
        maximum=DAY_MS,
    )
    map_retention_ms: int = setting(
        30 * DAY_MS,
        "How long the map keeps its entries: `retention.ms` of its topic at creation. -1 is "
        "for ever; a busy partition adds up to 5 MB a day.",
        minimum=-1,
        maximum=INT64_MAX,
    )

    # `--set source.security.protocol=SASL_SSL`, and so on for each setting of logins and TLS
    source_security: SecurityConfig = field(default_factory=SecurityConfig)
    target_security: SecurityConfig = field(default_factory=SecurityConfig)

    def __post_init__(self) -> None:
        for name, row, value, default in rows_of(self):
            check(name, row, value, default)
        if not NAME.fullmatch(self.name):
            raise ConfigInvalid(f"name: got {self.name!r}, wanted {NAME.pattern}")
        for name in ("topics", "groups"):
            pattern = getattr(self, name)
            try:
                patterns.compiled(pattern)
            except patterns.PatternInvalid as error:
                raise ConfigInvalid(f"{name}: {error}") from error

    @property
    def source_client(self) -> ClientConfig:
        return self._client(self.source, self.source_security)

    @property
    def target_client(self) -> ClientConfig:
        return self._client(self.target, self.target_security)

    def _client(self, addresses: str, security: SecurityConfig) -> ClientConfig:
        return ClientConfig.secured(
            security,
            broker_list=addresses,
            client_id=f"appliance-mirror-{self.name}",
            socket_timeout_ms=self.request_timeout_ms + self.fetch_max_wait_ms,
        )

    @property
    def positions_topic(self) -> str:
        return f"mirror.{self.name}.positions"

    @property
    def offsets_topic(self) -> str:
        return f"mirror.{self.name}.offsets"

    @property
    def is_exactly_once(self) -> bool:
        return self.delivery == "exactly-once"
