"""The settings of clients: fields with their reasons, checked at creation.

The names are those of the original clients, with `_` for `.`. `docs/client.md` has the tables that
`as_markdown` prints.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Self

from appliance.client.errors import ConfigInvalid
from appliance.client.security_config import SecurityConfig
from appliance.client.setting import setting


@dataclass(frozen=True, kw_only=True)
class ClientConfig(SecurityConfig):
    """Settings of every client: the addresses of brokers, timeouts, logins and TLS."""

    broker_list: str = setting(
        "",
        "`host:port,host:port`. The client asks each for its cluster; independent brokers are used "
        "side by side. Either this or `zk_connect`.",
    )
    zk_connect: str = setting(
        "",
        "`host:port,host:port/chroot`: the ZooKeeper in which the brokers are registered. The "
        "client watches brokers and topics there.",
    )
    zk_session_timeout_ms: int = setting(
        6000, "ZooKeeper ends the session of a client silent for so long.", minimum=1
    )
    zk_connection_timeout_ms: int = setting(
        6000, "How long the start waits for ZooKeeper.", minimum=1
    )
    client_id: str = setting(
        "appliance-client", "Name of the client in the broker's quotas and log."
    )
    connect_timeout_ms: int = setting(
        5000,
        "A running broker accepts and sends its API versions within a round trip each.",
        minimum=1,
    )
    socket_timeout_ms: int = setting(
        30_000,
        "How long a response may take before the client drops the connection. A durable append "
        "waits for the disk, and a busy disk may take seconds.",
        minimum=1,
    )
    socket_buffer_size: int = setting(
        0,
        "Of the kernel, each way. 0: the kernel chooses the size, which is best on a LAN.",
        minimum=0,
    )
    metadata_max_age_ms: int = setting(
        300_000,
        "With `broker_list`: maximum age of the metadata of partitions.",
        minimum=0,
    )

    @classmethod
    def secured(cls, security: SecurityConfig, **settings: Any) -> Self:
        """With the logins and TLS of another config."""
        taken = {each.name: getattr(security, each.name) for each in fields(SecurityConfig)}
        return cls(**taken, **settings)

    def __post_init__(self) -> None:
        super().__post_init__()
        if bool(self.broker_list) == bool(self.zk_connect):
            got = "both" if self.broker_list else "neither"
            raise ConfigInvalid(f"got {got}, wanted one of broker_list and zk_connect")
