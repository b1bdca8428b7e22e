"""The data source `appliance`: Spark's entry point, and the class for each kind of query.

Writers are imported late: a worker that only reads starts without the client library.
"""

from __future__ import annotations

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from appliance_spark.batch_read import BatchReader, takes_filters
from appliance_spark.columns import record_schema
from appliance_spark.options import Given
from appliance_spark.stream_read import reader_of


class ApplianceDataSource(DataSource):
    """Made known by `appliance_spark.register(spark)`, or alone by `spark.dataSource.register`."""

    @classmethod
    def name(cls) -> str:
        return "appliance"

    def schema(self) -> str:
        given = Given(self.options)
        may_be_several = bool(given.text("appliances") or given.text("zookeeper"))
        return record_schema(given.bool("includeHeaders"), may_be_several)

    def reader(self, schema: StructType) -> DataSourceReader:
        given = Given(self.options)
        if not takes_filters():
            return BatchReader(given, schema)
        from appliance_spark.pushdown import FilteringReader  # PySpark 4.1 and newer

        return FilteringReader(given, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return reader_of(Given(self.options), schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from appliance_spark.writers import BatchWriter

        return BatchWriter(Given(self.options), schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        from appliance_spark.writers import stream_writer_of

        return stream_writer_of(Given(self.options), schema, overwrite)
