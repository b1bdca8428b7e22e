"""Spark reads and writes the topics of an appliance: `spark.read.format("appliance")`.

    import appliance_spark
    appliance_spark.register(spark)

Spark pickles the classes of a data source by reference, so every worker must be able to import this
package; `worker_packages` sends it to workers without it.

The names are imported when they are asked for: the commands of exports tell what they are where
there is no PySpark.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from appliance_spark.failure_reason import why
    from appliance_spark.registration import register
    from appliance_spark.source import ApplianceDataSource
    from appliance_spark.worker_packages import ship

__all__ = ["ApplianceDataSource", "register", "ship", "why"]

WHERE = {
    "ApplianceDataSource": "appliance_spark.source",
    "register": "appliance_spark.registration",
    "ship": "appliance_spark.worker_packages",
    "why": "appliance_spark.failure_reason",
}


def __getattr__(name: str) -> Any:
    if name not in WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(WHERE[name]), name)
