"""The stream for PySpark 4.2 and newer, which limits a batch and knows the trigger `availableNow`.
Imported only with such a PySpark."""

from __future__ import annotations

from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from appliance_spark.options import Given
from appliance_spark.planning import Offsets
from appliance_spark.stream_read import Admission, StreamReader


class AdmittingReader(StreamReader, SupportsTriggerAvailableNow):
    def __init__(self, given: Given, schema: StructType) -> None:
        self.admission = Admission(given)
        self.target: Offsets | None = None
        super().__init__(given, schema)

    def check(self, given: Given) -> None:
        """All options are supported here."""

    def getDefaultReadLimit(self) -> ReadLimit:
        if self.admission.rows_max is not None:
            return ReadMaxRows(self.admission.rows_max)
        if self.admission.rows_min is not None:
            return ReadMinRows(self.admission.rows_min)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        """Later records are for the next run, which may have more partitions, too."""
        self.target = self.reach()

    def reportLatestOffset(self) -> Offsets:
        return self.reach()

    def latestOffset(self, start: Offsets, limit: ReadLimit) -> Offsets:  # type: ignore[override]
        end = self.target if self.target is not None else self.reach()
        if isinstance(limit, ReadAllAvailable):
            return self.admission.admitted(start, end, None)
        if self.target is None and self.admission.is_early(start, end):
            return start
        rows_max = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        return self.admission.admitted(start, end, rows_max)
