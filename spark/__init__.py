"""Spark reads and writes the topics of an appliance: `spark.read.format("appliance")`.

    from appliance_spark import ApplianceDataSource
    spark.dataSource.register(ApplianceDataSource)

Spark pickles the classes of a data source by reference, so every worker must be able to import this
package; `worker_packages` sends it to workers without it.

Both names are imported when they are asked for: the commands of exports tell what they are where
there is no PySpark.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from appliance_spark.source import ApplianceDataSource
    from appliance_spark.worker_packages import ship

__all__ = ["ApplianceDataSource", "ship"]

WHERE = {"ApplianceDataSource": "appliance_spark.source", "ship": "appliance_spark.worker_packages"}


def __getattr__(name: str) -> Any:
    if name not in WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(WHERE[name]), name)
