"""Spark reads and writes the topics of an appliance: `spark.read.format("appliance")`.

    from appliance_spark import ApplianceDataSource
    spark.dataSource.register(ApplianceDataSource)

Spark pickles the classes of a data source by reference, so every worker must be able to import this
package; `worker_packages` sends it to workers without it.
"""

from appliance_spark.source import ApplianceDataSource
from appliance_spark.worker_packages import ship

__all__ = ["ApplianceDataSource", "ship"]
