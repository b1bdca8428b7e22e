"""Log lines that a person reads and a machine splits: `time level name: text key=value ...`.

log = event_log.named("server")
log.info("recovered", partitions=3, ms=41)

This module limits the length of a line, because names and values come from clients, and the log is
on a disk and in memory. A line that repeats is written once a minute, with its count:
`log_repeats.py`.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from typing import Any, Literal, NamedTuple, cast

from appliance.process.log_repeats import Repeats

RECENT_MAX = 5000  # lines in memory, for the console

# Characters. A fact is a name or a handful of values, a line has a few facts. Only the ends of a
# long trace matter.
FACT_MAX = 1000
LINE_MAX = 4000
TRACE_MAX = 16_000


class Named:
    """A logger whose calls take facts by name. It formats an error at once, because a stored error
    would keep its whole stack alive with all objects, open files too."""

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger

    def info(self, text: str, **facts: Any) -> None:
        self._logger.info(text, extra=_extra(facts))

    def warning(self, text: str, **facts: Any) -> None:
        self._logger.warning(text, extra=_extra(facts))

    def error(self, text: str, **facts: Any) -> None:
        self._logger.error(text, extra=_extra(facts))

    def exception(self, text: str, **facts: Any) -> None:
        """For unexpected errors: with the trace of the exception being handled."""
        self._logger.exception(text, extra=_extra(facts))


def _extra(facts: dict[str, Any]) -> dict[str, Any]:
    words = {name: str(each) for name, each in facts.items() if isinstance(each, BaseException)}
    return {"facts": facts | words}


class Lines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        head = f"{stamp}.{int(record.msecs):03d}Z {record.levelname.lower()} {record.name}:"
        line = f"{head} {words_of(record)}"
        if not record.exc_info:
            return line
        trace = self.formatException(record.exc_info)
        if len(trace) > TRACE_MAX:
            half = TRACE_MAX // 2
            left_out = len(trace) - 2 * half
            trace = f"{trace[:half]}\n... ({left_out} characters)\n{trace[-half:]}"
        return f"{line}\n{trace}"


def words_of(record: logging.LogRecord) -> str:
    """The text of a line after its head."""
    facts = getattr(record, "facts", {})
    return cut(" ".join(filter(None, [record.getMessage(), as_words(facts)])), LINE_MAX)


def cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]}... ({len(text) - most} characters more)"


def as_words(facts: Mapping[str, Any]) -> str:
    return " ".join(f"{name}={quote(value)}" for name, value in facts.items())


def quote(value: Any) -> str:
    """One plain word as it is; other texts in quotes and on one line."""
    text = "null" if value is None else cut(str(value), FACT_MAX)
    is_plain = text.isprintable() and not any(mark in text for mark in ' "=')
    return text if is_plain and text else json.dumps(text)


repeats = Repeats()


def named(name: str) -> Named:
    logger = logging.getLogger(f"appliance.{name}")
    logger.addFilter(repeats)  # a filter is added only once
    return Named(logger)


def to_stderr() -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(Lines())
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    logging.getLogger("aiohttp.access").setLevel(logging.WARNING)
    for other in ("asyncio", "aiohttp.server"):  # without descriptors it repeats its errors
        logging.getLogger(other).addFilter(repeats)


class Recent(NamedTuple):
    id: int
    at_ms: int
    level: Literal["debug", "info", "warning", "error", "critical"]
    name: str
    text: str


_recent: deque[Recent] = deque(maxlen=RECENT_MAX)
_ids = count(1)


class Keep(logging.Handler):
    """Keeps the last lines. Threads that log never wait: a deque needs no lock."""

    def emit(self, record: logging.LogRecord) -> None:
        if getattr(record, "is_kept", False):
            return  # another broker of this process keeps it
        record.is_kept = True
        text = words_of(record)
        if record.exc_info and record.exc_info[1] is not None:
            text += cut(f" ({record.exc_info[1]!r})", FACT_MAX)
        level = cast(Any, record.levelname.lower())
        _recent.append(Recent(next(_ids), int(record.created * 1000), level, record.name, text))


@contextmanager
def kept() -> Iterator[None]:
    handler = Keep()
    logging.getLogger("appliance").addHandler(handler)
    try:
        yield
    finally:
        logging.getLogger("appliance").removeHandler(handler)


def recent() -> list[Recent]:
    return list(_recent)
