"""The archive of classes, without which all tests of Spark pass too, and take twice as long."""

from __future__ import annotations

import subprocess

from tests.interop.kafka_jars import java
from tests.support.spark_classes import start_flags
from tests.support.spark_home import class_path


def test_a_jvm_of_spark_maps_its_classes() -> None:
    words = [java(), *start_flags(), "-Xlog:class+load:stdout", "-cp", class_path(),
             "org.apache.spark.deploy.SparkSubmit", "--version"]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    (line,) = (each for each in done.stdout.splitlines()
               if " org.apache.spark.deploy.SparkSubmit source: " in each)
    assert line.endswith("source: shared objects file (top)")
