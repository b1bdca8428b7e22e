"""The settings of a mirror, each with its reason; docs/mirror.md has the table."""

from __future__ import annotations

import re
from dataclasses import dataclass

from appliance.client.config import MIB, ClientConfig, check, rows_of, setting
from appliance.client.errors import ConfigInvalid
from appliance.process import patterns

NAME = re.compile(r"[a-zA-Z0-9_-]{1,100}")  # becomes part of topic names
IN_FLIGHT_MAX = 5  # Kafka knows a batch that comes again only among a producer's last five


@dataclass(frozen=True, kw_only=True)
class MirrorConfig:
    source: str = setting("", "`--from`: `host:port,host:port` of the cluster to read from.")
    target: str = setting("", "`--to`: the same of the cluster to write to.")
    topics: str = setting("", "Which topics: a regular expression for the whole name.")
    groups: str = setting(
        "",
        "Which consumer groups' committed offsets are copied too: a regular expression for the "
        "whole name. Only where offsets are kept; empty: of none.",
    )
    name: str = setting(
        "mirror",
        "Two mirrors to one target need two names: positions, map and transactions carry it.",
    )
    delivery: str = setting(
        "exactly-once",
        "`at-least-once` saves the transactions, and a kill repeats what was sent in the last "
        "`commit_interval_ms`. Where offsets are kept it is exactly once either way.",
        choices=("exactly-once", "at-least-once"),
    )
    offsets: str = setting(
        "auto",
        "`keep` makes the target's offsets those of the source, which takes an appliance; `map` "
        "writes down which offset became which. `auto` keeps them where the target can.",
        choices=("auto", "keep", "map"),
    )
    sync_configs: bool = setting(
        True, "What the source's topics have as configs of their own is set in the target too."
    )
    fetch_max_bytes: int = setting(8 * MIB, "Of one answer of a source broker.", minimum=1)
    fetch_partition_max_bytes: int = setting(
        MIB, "Of one partition in it. A larger batch comes all the same.", minimum=1
    )
    fetch_max_wait_ms: int = setting(
        500, "How long a source broker holds back an answer without records.", minimum=0
    )
    inbox_bytes: int = setting(
        32 * MIB, "Read and not sent yet: beyond it reading waits.", minimum=1
    )
    request_max_bytes: int = setting(
        MIB,
        "Of one Produce. Kafka's default limit is 100 MiB; more than a megabyte gains nothing.",
        minimum=1,
    )
    commit_interval_ms: int = setting(
        1000,
        "With a map: how often position and map are written, and how long a transaction is. "
        "Readers of committed records in the target see them so much later.",
        minimum=1,
    )
    refresh_interval_ms: int = setting(
        10_000, "How often topics, partitions and configs are compared.", minimum=100
    )
    retry_backoff_ms: int = setting(
        200, "The pause after a failure; it doubles with each that follows.", minimum=1
    )
    retry_backoff_max_ms: int = setting(
        30_000,
        "The longest pause. A link that is back is used within it.",
        minimum=1,
    )
    request_timeout_ms: int = setting(
        30_000, "How long an answer may take before the round is given up.", minimum=1
    )
    stop_timeout_ms: int = setting(
        5000,
        "How long the mirror waits for what is on its way when it is told to stop; then the "
        "connections are cut. What was not answered is asked for again at the next start.",
        minimum=0,
    )
    map_retention_ms: int = setting(
        30 * 86_400_000,
        "How long entries of the map are kept: `retention.ms` of its topic when it is made. -1 is "
        "for ever, at up to 5 MB a day and busy partition.",
        minimum=-1,
    )

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

    def client(self, addresses: str) -> ClientConfig:
        return ClientConfig(
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
