"""Lag over time: a ring of samples for each group and topic, in 24 bytes a sample.

Offsets and times are what clients say: what has no place in 64 bits is the most that has.
"""

from __future__ import annotations

from array import array
from collections.abc import Collection, Mapping
from typing import NamedTuple

from appliance.config import LONG_MAX

NOT_KNOWN_MS = -1
FIELDS = 3  # time, records, milliseconds of lag

Series = tuple[str, str]  # group and topic
Measured = tuple[int, float | None]  # records and seconds


class LagSample(NamedTuple):
    at_ms: int  # wall clock
    records: int  # sum over the partitions of the topic
    seconds: float | None  # largest; None: not known of any


class History:
    def __init__(self, samples_max: int, series_max: int) -> None:
        self.left_out = 0  # groups and topics that had no place in the last round
        self._fields_max = samples_max * FIELDS
        self._series_max = series_max
        self._rings: dict[Series, array[int]] = {}

    def add(self, at_ms: int, measured: Mapping[Series, Measured | None]) -> None:
        """One round. What is not in it is gone, with all of its past; None is unknown, and gets no
        sample."""
        self._forget(measured.keys())
        self.left_out = 0
        for series, values in measured.items():
            ring = self._rings.get(series)
            if ring is None:
                if len(self._rings) >= self._series_max:
                    self.left_out += 1
                    continue
                ring = self._rings[series] = array("q")
            if values is None:
                continue
            if len(ring) >= self._fields_max:
                del ring[:FIELDS]
            records, seconds = values
            lag_ms = NOT_KNOWN_MS if seconds is None else round(seconds * 1000)
            ring.extend((at_ms, min(records, LONG_MAX), min(lag_ms, LONG_MAX)))

    @property
    def series(self) -> Collection[Series]:
        return self._rings.keys()

    def of_group(self, group_id: str) -> dict[str, tuple[LagSample, ...]]:
        """By topic, oldest first."""
        return {
            topic: tuple(_samples(ring))
            for (name, topic), ring in self._rings.items()
            if name == group_id
        }

    def forget(self, groups: Collection[str]) -> None:
        for series in [each for each in self._rings if each[0] in groups]:
            del self._rings[series]

    def _forget(self, kept: Collection[Series]) -> None:
        for series in [each for each in self._rings if each not in kept]:
            del self._rings[series]


def _samples(ring: array[int]) -> list[LagSample]:
    rows = zip(ring[::FIELDS], ring[1::FIELDS], ring[2::FIELDS], strict=True)
    return [
        LagSample(at_ms, records, None if lag_ms == NOT_KNOWN_MS else lag_ms / 1000)
        for at_ms, records, lag_ms in rows
    ]
