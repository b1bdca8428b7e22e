"""Spark reads and writes the topics of an appliance: `spark.read.format("appliance")`.

    from appliance_spark import ApplianceDataSource
    spark.dataSource.register(ApplianceDataSource)

Spark pickles the classes of a data source by reference, so every worker must be able to import this
package; `shipping` sends it to workers without it.
"""

from appliance_spark.shipping import ship
from appliance_spark.source import ApplianceDataSource

__all__ = ["ApplianceDataSource", "ship"]
