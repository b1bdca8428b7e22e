"""Settings of which one group may have its own value, between limits that the operator sets.

`group.share.session.timeout.ms` is for all share groups and `share.session.timeout.ms` for one.
Both lie between `group.share.min.session.timeout.ms` and `group.share.max.session.timeout.ms`.
"""

from __future__ import annotations

from typing import Any

from appliance.config.setting import SECOND_MS, Part, SettingInvalid, setting


class OfGroups(Part):
    """A setting with limits is declared once; the settings of its limits are made from it."""

    def __init_subclass__(cls) -> None:
        for name, made in list(vars(cls).items()):
            row = getattr(made, "metadata", {}).get("setting")
            if row and row.least:
                facts = {"minimum": row.minimum, "maximum": row.maximum}
                for word, limit in (("min", row.least), ("max", row.most)):
                    of_limit = setting(limit_name(row.name, word), *limit, **facts)
                    setattr(cls, f"{word}_{name}", of_limit)
                    cls.__annotations__[f"{word}_{name}"] = "int"

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, row in self.rows.items():
            if row.least:
                value = getattr(self, name)
                low, high = getattr(self, f"min_{name}"), getattr(self, f"max_{name}")
                if not low <= value <= high:
                    raise SettingInvalid(
                        f"{row.name}: got {value}, wanted {low} to {high} "
                        f"({limit_name(row.name, 'min')}, {limit_name(row.name, 'max')})"
                    )


def limit_name(name: str, word: str) -> str:
    group, kind, rest = name.split(".", 2)
    return f"{group}.{kind}.{word}.{rest}"


def session_timeout(kind: str, reason: str) -> Any:
    return setting(
        f"group.{kind}.session.timeout.ms",
        45 * SECOND_MS,
        reason,
        minimum=1,
        maximum=2**31 - 1,
        least=(
            6 * SECOND_MS,
            "Shortest session timeout of a group, as for classic groups. Kafka's 45 s leave no "
            "choice.",
        ),
        most=(60 * SECOND_MS, "Longest session timeout of a group."),
    )


def heartbeat_interval(kind: str, reason: str) -> Any:
    return setting(
        f"group.{kind}.heartbeat.interval.ms",
        5 * SECOND_MS,
        reason,
        minimum=1,
        maximum=2**31 - 1,
        least=(
            SECOND_MS,
            "Shortest heartbeat interval of a group: each heartbeat is a request per member. "
            "Kafka's 5 s allow no shorter one.",
        ),
        most=(15 * SECOND_MS, "Longest heartbeat interval of a group."),
    )
