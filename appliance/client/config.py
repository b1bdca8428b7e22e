"""The settings of clients: fields with their reasons, checked at creation.

The names are those of the original clients, with `_` for `.`. `docs/client.md` has the tables that
`as_markdown` prints.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from appliance.client.errors import ConfigInvalid

KIB, MIB = 1 << 10, 1 << 20
UNITS = {"ms": "ms", "bytes": "bytes", "size": "bytes"}  # by the last word of a name


@dataclass(frozen=True)
class Setting:
    """One row of the table, kept in the metadata of its field."""

    reason: str
    unit: str
    minimum: float | None
    maximum: float | None
    choices: tuple[str, ...]


def setting(
    default: Any,
    reason: str,
    *,
    unit: str = "",
    minimum: float | None = None,
    maximum: float | None = None,
    choices: tuple[str, ...] = (),
) -> Any:
    row = Setting(reason, unit, minimum, maximum, choices)
    return dataclasses.field(default=default, metadata={"setting": row})


@dataclass(frozen=True, kw_only=True)
class ClientConfig:
    """Settings of every client: the addresses of brokers, and timeouts."""

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

    def __post_init__(self) -> None:
        for name, row, value, default in rows_of(self):
            check(name, row, value, default)
        if bool(self.broker_list) == bool(self.zk_connect):
            got = "both" if self.broker_list else "neither"
            raise ConfigInvalid(f"got {got}, wanted one of broker_list and zk_connect")


def rows_of(config: Any) -> Iterator[tuple[str, Setting, Any, Any]]:
    """Name, row, value and default of each setting; the value of a class is the default."""
    for each in dataclasses.fields(config):
        row: Setting = each.metadata["setting"]
        unit = row.unit or UNITS.get(each.name.rpartition("_")[2], "")
        row = dataclasses.replace(row, unit=unit)
        yield each.name, row, getattr(config, each.name), each.default


def check(name: str, row: Setting, value: Any, default: Any) -> None:
    if not isinstance(value, type(default)) or isinstance(value, bool) != isinstance(default, bool):
        raise ConfigInvalid(f"{name}: got {value!r}, wanted {type(default).__name__}")
    if row.choices and value not in row.choices:
        raise ConfigInvalid(f"{name}: got {value!r}, wanted one of {', '.join(row.choices)}")
    if row.minimum is not None and value < row.minimum:
        raise ConfigInvalid(f"{name}: got {value}, wanted at least {row.minimum} {row.unit}")
    if row.maximum is not None and value > row.maximum:
        raise ConfigInvalid(f"{name}: got {value}, wanted at most {row.maximum} {row.unit}")


def as_markdown(config: type, beyond: type | None = None) -> str:
    """The table of a config's settings, without the settings of `beyond`."""
    known = {name for name, *_ in rows_of(beyond)} if beyond else set()
    lines = ["| setting | default | unit | reason |", "|---|---|---|---|"]
    for name, row, value, _ in rows_of(config):
        if name not in known:
            choices = f" One of {', '.join(row.choices)}." if row.choices else ""
            shown = f"`{value}`" if value != "" else "(empty)"
            lines.append(f"| `{name}` | {shown} | {row.unit} | {row.reason}{choices} |")
    return "\n".join(lines) + "\n"
