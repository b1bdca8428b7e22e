"""What a session needs to know of this package, in one call.

    import appliance_spark
    appliance_spark.register(spark)

Spark tells a source in Python neither the columns of a query nor, by default, its filters. It keeps
the first plan of a data frame for all that is asked of it, forgets the options of CREATE TABLE, and
has no place for the lag of a stream. Rules for its plans, `scan_rules.java`, mend that. The driver
compiles them, in a tenth of a second, with the compiler that Spark has for its own code: there is
no jar to build or to install.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RULES = Path(__file__).with_name("scan_rules.java")
CLASS = "appliance_spark.ScanRules"
PUSHDOWN = "spark.sql.python.filterPushdown.enabled"

log = logging.getLogger("appliance_spark")
_ruled: WeakSet[SparkSession] = WeakSet()


def register(spark: SparkSession) -> None:
    """May be called again. Filters are pushed down unless the session says that they are not."""
    from appliance_spark.source import ApplianceDataSource

    spark.dataSource.register(ApplianceDataSource)
    if PUSHDOWN not in spark.conf.getAll:
        spark.conf.set(PUSHDOWN, "true")
    if spark not in _ruled:
        _ruled.add(spark)
        add_rules(spark)


def add_rules(spark: SparkSession) -> None:
    """Without them all is read, only slower: by Spark Connect, whose driver is elsewhere, and by a
    Spark whose plans are different ones."""
    from py4j.protocol import Py4JError

    try:
        rules = _compiled(spark._jvm)
        extensions = spark._jsparkSession.extensions()
        extensions.injectOptimizerRule(rules.getMethod("ofBatches", None).invoke(None, None))
        of_streams = rules.getMethod("ofStreams", None).invoke(None, None)
        extensions.injectPostHocResolutionRule(of_streams)
    except (Py4JError, TypeError, AttributeError) as error:
        log.warning(
            "this Spark does not take our rules: scans read all columns, tables of CREATE TABLE "
            "have no options, progress has no lag: %s", error,
        )  # fmt: skip


def _compiled(jvm: Any) -> Any:
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(jvm.java.lang.Thread.currentThread().getContextClassLoader())
    compiler.cook(RULES.read_text("utf-8"))
    return compiler.getClassLoader().loadClass(CLASS)
