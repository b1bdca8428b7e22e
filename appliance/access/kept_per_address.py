"""Limits on what clients make the broker keep across restarts: in total and per address.

Not every listener has a login, so anyone who reaches the port can name new groups, transactional
ids or users again and again. Each kind has an owner, which asks here before it creates an object
or lets it grow, and reports its size. Requests beyond the limit are refused; existing objects stay.
Objects that a start loads count for the total and for no address.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping
from contextvars import ContextVar

from appliance.config import KeptConfig
from appliance.errors import Refused, RequestInvalid
from appliance.protocol import ErrorCode

# Of a name that clients choose, in bytes of UTF-8. Kafka limits only topic names, to 249; the
# longest ids of Kafka Streams and of Flink have some hundreds. A name is in memory, in records, in
# responses and in the labels of metrics.
NAME_BYTES_MAX = 1024

# Memory of an object beside its texts: Python objects, table entries, a timer.
THING_BYTES = 1024

# What the address of the current request counts as (`native/_peer_network.pyx`), or none for an
# administrator's. Tasks that the request starts inherit it.
asker: ContextVar[str] = ContextVar("asker", default="")


def check_name(what: str, name: str | None) -> None:
    """Cheap for short names, the usual ones."""
    if name is not None and len(name) * 4 > NAME_BYTES_MAX:
        size = len(name.encode("utf-8", "surrogatepass"))
        if size > NAME_BYTES_MAX:
            raise RequestInvalid(
                f"{what}: got a name of {size} bytes, wanted at most {NAME_BYTES_MAX}"
            )


def size_of(texts: Mapping[str, str]) -> int:
    return sum(len(name) + len(text) for name, text in texts.items())


class Kept:
    """All objects of one kind by their keys. The names of its limits begin with `setting`."""

    def __init__(
        self, what: str, setting: str, count_max: int, bytes_max: int, percent_of_one: int
    ) -> None:
        self._what = what
        self._setting = setting
        self._count_max, self._bytes_max = count_max, bytes_max
        self._percent_of_one = percent_of_one
        self._things: dict[Hashable, tuple[int, str]] = {}  # size and address
        self._counts: Counter[str] = Counter()  # by address
        self._bytes: Counter[str] = Counter()
        self.bytes = 0

    @classmethod
    def of_groups(cls, config: KeptConfig) -> Kept:
        most = config.groups_max, config.groups_bytes
        return cls("groups", "max.groups", *most, config.percent_per_ip)

    @classmethod
    def of_transactions(cls, config: KeptConfig) -> Kept:
        most = config.transactions_max, config.transactions_bytes
        return cls("transactional ids", "max.transactional.ids", *most, config.percent_per_ip)

    @classmethod
    def of_entities(cls, config: KeptConfig) -> Kept:
        """ACLs, quotas, credentials, delegation tokens, configs of groups, subscriptions."""
        most = config.entities_max, config.entities_bytes
        return cls("entities", "max.entities", *most, config.percent_per_ip)

    def __len__(self) -> int:
        return len(self._things)

    def check(self, key: Hashable, more_bytes: int = 0, count: int = 1) -> None:
        """To be called before an object is created or grows by `size`; `count` objects are added
        if `key` is new."""
        if more_bytes <= 0 and key in self._things:
            return  # nothing more is kept
        _, owner = self._things.get(key, (0, asker.get()))
        new = 0 if key in self._things else count
        more_bytes += new * THING_BYTES
        percent = self._percent_of_one
        self._refuse(len(self) + new, self._count_max, "", new)
        self._refuse(self.bytes + more_bytes, self._bytes_max, " bytes", more_bytes)
        if owner and percent < 100:
            count_max = self._count_max * percent // 100
            bytes_max = self._bytes_max * percent // 100
            of = f" of {owner}"
            self._refuse(self._counts[owner] + new, count_max, "", new, of)
            self._refuse(self._bytes[owner] + more_bytes, bytes_max, " bytes", more_bytes, of)

    def _refuse(self, total: int, most: int, unit: str, more: int, of: str = "") -> None:
        if total <= most or more <= 0:
            return
        name = f"{self._setting}.{'bytes' if unit else 'total'}"
        share = f", of which {self._percent_of_one} percent (max.kept.percent.per.ip)" if of else ""
        raise Refused(
            ErrorCode.POLICY_VIOLATION,
            f"there would be {total}{unit} of {self._what}{of}, wanted at most {most} "
            f"({name}{share})",
        )

    def put(self, key: Hashable, size: int) -> None:
        before, owner = self._things.get(key, (0, asker.get()))
        if key not in self._things:
            self._counts[owner] += 1
        size += THING_BYTES
        self._things[key] = size, owner
        self._bytes[owner] += size - before
        self.bytes += size - before

    def drop(self, key: Hashable) -> None:
        if key not in self._things:
            return
        size, owner = self._things.pop(key)
        self.bytes -= size
        self._bytes[owner] -= size
        self._counts[owner] -= 1
        if not self._counts[owner]:
            del self._counts[owner], self._bytes[owner]
