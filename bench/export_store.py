"""The store of `export_kills.py --store`: a server of S3 that can be killed, and its readers."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pyarrow as pa
import s3fs
from pyiceberg.catalog import load_catalog

from loadtest.ports import lasting_ports
from tests.interop import kafka_jars
from tests.support.duck import a_duck
from tests.support.s3_server import KEY, SECRET, Gateway, settings_of

COLUMNS = ["partition", "offset", "key", "value"]
Rows = Counter[tuple[int, int, bytes, bytes]]


class Store:
    """Versity's gateway, whose bucket is a folder."""

    def __init__(self, url: str, scratch: Path) -> None:
        self.url, self.catalog = url, f"sqlite:///{scratch}/catalog.db"
        self._server = Gateway(scratch / "store", lasting_ports(1)[0])
        self._server.start()
        os.environ.update(settings_of(self._server.url))
        s3fs.S3FileSystem(use_listings_cache=False).mkdir(urlsplit(url).netloc)

    @property
    def table_words(self) -> tuple[str, ...]:
        return ("--catalog", "type=sql", "--catalog", f"uri={self.catalog}")

    def strike(self, away_s: float) -> None:
        self._server.kill()
        time.sleep(away_s)
        self._server.start()

    def stop(self) -> None:
        self._server.kill()

    # Its readers

    def read(self, topic: str, has_table: bool) -> Iterator[tuple[str, Rows]]:
        yield "DuckDB", self._by_duck(topic)
        if has_table:
            yield "pyiceberg", self._by_iceberg(topic)
        yield "Spark", self._by_spark(topic)

    def _files(self, *words: str) -> str:
        command = [sys.executable, "-m", "appliance_spark.export", "files", "--target", self.url]
        done = subprocess.run([*command, *words], capture_output=True, text=True, check=True)
        return done.stdout

    def _by_duck(self, topic: str) -> Rows:
        with a_duck("httpfs") as duck:
            duck.execute(
                f"create secret (type s3, key_id '{KEY}', secret '{SECRET}', region 'us-east-1', "
                f"endpoint '127.0.0.1:{self._server.port}', url_style 'path', use_ssl false)")
            duck.execute(self._files("--sql"))
            return rows_of(duck.execute(f'from "{topic}"').to_arrow_table())

    def _by_iceberg(self, topic: str) -> Rows:
        with load_catalog("appliance", type="sql", uri=self.catalog,
                          **{"py-io-impl": "pyiceberg.io.fsspec.FsspecFileIO"}) as catalog:
            return rows_of(catalog.load_table(f"lake.{topic}").scan().to_arrow())

    def _by_spark(self, topic: str) -> Rows:
        from pyspark.sql import SparkSession

        settings = {
            "spark.driver.extraClassPath": f"{kafka_jars.of_s3a()}/*",
            "spark.hadoop.fs.s3a.endpoint": self._server.url,
            "spark.hadoop.fs.s3a.endpoint.region": "us-east-1",
            "spark.hadoop.fs.s3a.path.style.access": "true",
            "spark.ui.enabled": "false",
        }
        builder = SparkSession.builder.master("local[2]")
        spark = builder.config(map=settings).getOrCreate()
        files = [each.replace("s3://", "s3a://") for each in self._files().splitlines()]
        table = spark.read.parquet(*files).select(*COLUMNS).toArrow()
        spark.stop()
        return rows_of(table)


def rows_of(table: pa.Table) -> Rows:
    return Counter(zip(*table.select(COLUMNS).to_pydict().values(), strict=True))
