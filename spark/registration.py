"""What a session needs to know of this package, in one call.

    import appliance_spark
    appliance_spark.register(spark)  # before the session's first query

Spark tells a source in Python neither the columns of a query nor, by default, its filters. It keeps
the first plan of a data frame for all queries that are made of it, forgets the options of CREATE
TABLE, and has no place for the lag of a stream. Rules for its plans, `scan_rules.java`, mend that.
The driver compiles them, in a tenth of a second, with the compiler that Spark has for its own code:
there is no jar to build or to install.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RULES = Path(__file__).with_name("scan_rules.java")
CLASS = "appliance_spark.ScanRules"
RULE, STREAM_RULE = "appliance_spark.BatchRule", "appliance_spark.StreamRule"
PUSHDOWN = "spark.sql.python.filterPushdown.enabled"

log = logging.getLogger("appliance_spark")


def register(spark: SparkSession) -> None:
    """May be called again. Filters are pushed down unless the session says that they are not."""
    from appliance_spark.source import ApplianceDataSource

    with _active(spark):
        spark.dataSource.register(ApplianceDataSource)
    if PUSHDOWN not in spark.conf.getAll:
        spark.conf.set(PUSHDOWN, "true")
    add_rules(spark)


@contextmanager
def _active(spark: SparkSession) -> Iterator[None]:
    """Whether another source has the name Spark asks the active session, whichever gets this one:
    a second session would be refused."""
    if not hasattr(spark, "_jsparkSession"):  # of Spark Connect
        yield
        return
    sessions = getattr(spark._jvm, "org.apache.spark.sql.classic.SparkSession")
    before = sessions.getActiveSession()
    sessions.setActiveSession(spark._jsparkSession)
    try:
        yield
    finally:
        if before.isDefined():
            sessions.setActiveSession(before.get())
        else:
            sessions.clearActiveSession()


def add_rules(spark: SparkSession) -> None:
    """Without them all is read, only slower: by Spark Connect, whose driver is elsewhere, and by a
    Spark whose plans are different ones."""
    from py4j.protocol import Py4JError

    try:
        session = spark._jsparkSession
        if has_rules(session):
            return
        rules = _compiled(spark._jvm)
        extensions = session.extensions()
        extensions.injectOptimizerRule(rules.getMethod("ofBatches", None).invoke(None, None))
        of_streams = rules.getMethod("ofStreams", None).invoke(None, None)
        extensions.injectPostHocResolutionRule(of_streams)
        check_streams(session)
    except (Py4JError, TypeError, AttributeError) as error:
        log.warning(
            "this Spark does not take our rules: scans read all columns, tables of CREATE TABLE "
            "have no options, progress has no lag: %s", error,
        )  # fmt: skip


def has_rules(session: Any) -> bool:
    """A session shares its extensions with those that are made of it, as each batch of
    foreachBatch has one. A rule that was there twice would undo its own work, for ever."""
    return RULE in _names(session.extensions().buildOptimizerRules(session))


def check_streams(session: Any) -> None:
    """An analyzer has the rules of the time when the session was first asked anything."""
    rules = session.sessionState().analyzer().postHocResolutionRules()
    if STREAM_RULE not in _names(rules):
        log.warning("register was called after the session's first query: the progress of its "
                    "streams has no lag")  # fmt: skip


def _names(rules: Any) -> list[str]:
    return [rules.apply(at).ruleName() for at in range(rules.size())]


def _compiled(jvm: Any) -> Any:
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(jvm.java.lang.Thread.currentThread().getContextClassLoader())
    compiler.cook(RULES.read_text("utf-8"))
    return compiler.getClassLoader().loadClass(CLASS)
