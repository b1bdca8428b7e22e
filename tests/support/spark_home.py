"""A Spark whose Python workers start fast: what PySpark brings, less its archive of itself.

Spark puts that archive first on a worker's path, and what Python imports from an archive it
compiles each time. A worker imports the installed package instead, which is compiled."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pyspark

from tests.interop.kafka_jars import CACHE
from tests.support.made_once import made_once

INSTALLED = Path(pyspark.__file__).parent


def spark_home() -> Path:
    """For SPARK_HOME."""
    named = hashlib.sha256(bytes(INSTALLED)).hexdigest()[:8]
    home = CACHE / f"spark-home-{pyspark.__version__}-{named}"
    with made_once(home) as folder:
        if folder is not None:
            for part in ("bin", "jars"):
                (folder / part).symlink_to(INSTALLED / part)
    return home


def class_path() -> str:
    """As Spark's own scripts have it, for the archive of classes is of this one."""
    home = spark_home()
    (logging,) = (home / "jars").glob("slf4j-api-*.jar")
    return f"{home}/conf:{logging}:{home}/jars/*"
