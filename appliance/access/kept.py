"""What clients make the broker keep, across restarts too: how much, in all and of one address.

Nobody logs in, so whoever reaches the port may name a group, a transactional id or a user that was
never there before, again and again. Each kind of such things has an owner, which asks here before
it makes one or lets one grow, and says what it weighs. What is beyond is refused; nothing that is
there is touched. What a start finds counts for all, and is nobody's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping
from contextvars import ContextVar

from appliance.config import KeptConfig
from appliance.errors import ApplianceError, RequestInvalid

# Of a name that clients choose, in bytes of UTF-8. Kafka bounds those of topics alone, at 249; the
# longest of real ids, of Kafka Streams and of Flink, have some hundreds. Each is in memory, in
# records, in answers and in the labels of metrics.
NAME_BYTES_MAX = 1024

# What a thing takes in memory beside its texts: objects, entries of tables, a timer.
THING_BYTES = 1024

# Whose request is being answered: an address, or nobody's, which is an administrator's. Tasks that
# are made for a request have it, too.
asker: ContextVar[str] = ContextVar("asker", default="")


class TooMuchKept(ApplianceError):
    kafka_code = 44


def check_name(what: str, name: str | None) -> None:
    """Cheap for the short names that all are."""
    if name is not None and len(name) * 4 > NAME_BYTES_MAX:
        size = len(name.encode("utf-8", "surrogatepass"))
        if size > NAME_BYTES_MAX:
            raise RequestInvalid(
                f"{what}: got a name of {size} bytes, wanted at most {NAME_BYTES_MAX}"
            )


def size_of(texts: Mapping[str, str]) -> int:
    return sum(len(name) + len(text) for name, text in texts.items())


class Kept:
    """All things of one kind by their keys. The names of its limits begin with `setting`."""

    def __init__(
        self, what: str, setting: str, count_max: int, bytes_max: int, percent_of_one: int
    ) -> None:
        self._what = what
        self._setting = setting
        self._count_max, self._bytes_max = count_max, bytes_max
        self._percent_of_one = percent_of_one
        self._things: dict[Hashable, tuple[int, str]] = {}  # its bytes, and whose it is
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
        """ACLs, quotas, credentials, configs of groups, subscriptions to metrics."""
        most = config.entities_max, config.entities_bytes
        return cls("entities", "max.entities", *most, config.percent_per_ip)

    def __len__(self) -> int:
        return len(self._things)

    def check(self, key: Hashable, more_bytes: int = 0, count: int = 1) -> None:
        """Before it is made, or grows by so much. `count` is how many more things there will be
        if this one is not there yet."""
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
        raise TooMuchKept(
            f"there would be {total}{unit} of {self._what}{of}, wanted at most {most} "
            f"({name}{share})"
        )

    def put(self, key: Hashable, size: int) -> None:
        """What it weighs from now on."""
        before, owner = self._things.get(key, (0, asker.get()))
        if key not in self._things:
            self._counts[owner] += 1
        size += THING_BYTES
        self._things[key] = size, owner
        self._bytes[owner] += size - before
        self.bytes += size - before

    def drop(self, key: Hashable) -> None:
        """It is gone, if it was there."""
        if key not in self._things:
            return
        size, owner = self._things.pop(key)
        self.bytes -= size
        self._bytes[owner] -= size
        self._counts[owner] -= 1
        if not self._counts[owner]:
            del self._counts[owner], self._bytes[owner]
