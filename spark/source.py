"""The data source `appliance`: what Spark asks first, and who answers."""

from __future__ import annotations

from pyspark.sql.datasource import DataSource

from appliance_spark.columns import record_schema


class ApplianceDataSource(DataSource):
    """Registered with `spark.dataSource.register(ApplianceDataSource)`."""

    @classmethod
    def name(cls) -> str:
        return "appliance"

    def schema(self) -> str:
        return record_schema(self.options.get("includeHeaders", "false").lower() == "true")
