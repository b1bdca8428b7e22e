"""Durations and sizes of configs in words, and back: 259200000 is "3 d", and "3 d" is 259200000.

The one place that makes these words: REST has them, and through it the console and the command
line. They say exactly what the number is, or begin with "about". What a person may write is wider:
`3d`, `1 d 12 h`, `1GiB`, `1 GB` (10^9 bytes), `1.5 MiB`, "for ever". Clients at Kafka's port write
numbers alone, as in Kafka.
"""

from __future__ import annotations

import re
from fractions import Fraction

from appliance.config.config_key import ConfigInvalid, whole
from appliance.config.setting import LONG_MAX

DURATIONS = (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1000), ("ms", 1))
SIZES = (("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10))

# By a name's last word: what one of it is, in ms.
OF_TIME = {"ms": 1, "seconds": 1000, "minutes": 60_000}

WRITTEN_TIMES = {
    **dict.fromkeys(("ms", "millisecond", "milliseconds"), 1),
    **dict.fromkeys(("s", "sec", "second", "seconds"), 1000),
    **dict.fromkeys(("m", "min", "minute", "minutes"), 60_000),
    **dict.fromkeys(("h", "hour", "hours"), 3_600_000),
    **dict.fromkeys(("d", "day", "days"), 86_400_000),
    **dict.fromkeys(("w", "week", "weeks"), 7 * 86_400_000),
}
WRITTEN_SIZES = {
    **dict.fromkeys(("b", "byte", "bytes"), 1),
    **{f"{letter}b": 1000**power for power, letter in enumerate("kmgt", 1)},
    **{f"{letter}ib": 1024**power for power, letter in enumerate("kmgt", 1)},
}

FOR_EVER, NO_LIMIT, NEVER = "for ever", "no limit", "never"

FLUSHES = "flush.ms", "flush.messages", "flush.interval.ms", "flush.interval.messages"
UNLIMITED = "max.compaction.lag.ms", "timestamp.before.max.ms", "timestamp.after.max.ms"

TEXT_MAX = 100  # characters of a number with units
WRITTEN = re.compile(r"(?:[0-9]{1,19}(?:\.[0-9]{1,9})? ?[A-Za-z]+ ?)+")
PART = re.compile(r"([0-9]{1,19}(?:\.[0-9]{1,9})?) ?([A-Za-z]+)")


def in_words(name: str, text: str) -> str:
    """The value of a config, by its name; "" where words say no more than the text."""
    number = whole(text.strip())
    if number is None:
        return ""
    for words, value in special(name).items():
        if number == value:
            return words
    unit = name.rpartition(".")[2]
    if number < 0 or unit not in (*OF_TIME, "bytes"):
        return ""
    if number == LONG_MAX:
        return NO_LIMIT
    return size(number) if unit == "bytes" else duration(number * OF_TIME[unit])


def special(name: str) -> dict[str, int]:
    """Numbers that are no quantity, by what they mean."""
    unit = name.rpartition(".")[2]
    if name.endswith(("local.retention.ms", "local.retention.bytes")):
        return {f"as retention.{unit}": -2, FOR_EVER if unit == "ms" else NO_LIMIT: -1}
    if name in ("retention.ms", "log.retention.ms"):
        return {FOR_EVER: -1}
    if name in ("retention.bytes", "log.retention.bytes"):
        return {NO_LIMIT: -1}
    if name.endswith(FLUSHES):
        return {NEVER: LONG_MAX}
    return {NO_LIMIT: LONG_MAX} if name.endswith(UNLIMITED) else {}


def duration(ms: int) -> str:
    """Exactly: 1 d 12 h."""
    parts = []
    for unit, one in DURATIONS:
        count, ms = divmod(ms, one)
        if count:
            parts.append(f"{count} {unit}")
    return " ".join(parts) or "0 s"


def size(count: int) -> str:
    """Exactly, if one decimal is enough for that: 1.5 MiB."""
    for unit, one in SIZES:
        if count >= one:
            about = "" if count * 10 % one == 0 else "about "
            return f"{about}{count / one:.1f}".removesuffix(".0") + f" {unit}"
    return f"{count} B"


def examples(name: str) -> str:
    """What else than a number may be written; "": nothing."""
    last = name.rpartition(".")[2]
    words = "".join(f", {each!r}" for each in special(name))
    if last in OF_TIME:
        return f"also as 3d, 12 h or 1 min 30 s{words}"
    return f"also as 64KiB, 1.5 GiB or 1 GB{words}" if last == "bytes" else ""


def plain(name: str, text: str) -> str:
    """What a person wrote, as the number that is stored; other texts are as they were."""
    bare = " ".join(text.split())
    known = {words: str(value) for words, value in special(name).items()}
    if found := known.get(bare.lower()):
        return found
    last = name.rpartition(".")[2]
    units = WRITTEN_TIMES if last in OF_TIME else WRITTEN_SIZES if last == "bytes" else {}
    if not units or len(bare) > TEXT_MAX or not WRITTEN.fullmatch(bare):
        return text
    return str(_number(name, bare, units, OF_TIME.get(last, 1)))


def _number(name: str, text: str, units: dict[str, int], one: int) -> int:
    total = Fraction(0)
    for number, unit in PART.findall(text):
        if unit.lower() not in units:
            wanted = ", ".join(units)
            raise ConfigInvalid(f"{name}: got {text!r}, wanted units out of {wanted}")
        total += Fraction(number) * units[unit.lower()]
    total /= one
    if total.denominator != 1:
        raise ConfigInvalid(f"{name}: got {text!r}, wanted a whole number of "
                            f"{name.rpartition('.')[2]}")
    return int(total)
