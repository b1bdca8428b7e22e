"""Reads and an export over TLS, by a program that has a token: driver and workers trust the same
authority, and nobody else."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from confluent_kafka import Producer
from pyspark.sql import DataFrame, SparkSession

from appliance.cli.main import main
from appliance.testing import running_broker
from tests.support.certificates import Authority
from tests.support.people import PASSWORD, make_people

COUNT = 100


@dataclass(frozen=True)
class Guarded:
    """A broker with users and TLS, and what a program needs of it."""

    url: str
    ca: Path
    token_file: Path

    def read(self, spark: SparkSession, **options: object) -> DataFrame:
        given = {"url": self.url, "subscribe": "orders", **options}
        reader = spark.read.format("appliance")
        return reader.options(**{name: str(value) for name, value in given.items()}).load()


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    folder = tmp_path_factory.mktemp("guarded")
    authority = Authority(folder / "tls")
    make_people(folder / "data")
    with running_broker(folder / "data", authority.settings) as broker:
        made = Producer({"bootstrap.servers": broker.bootstrap})
        for number in range(COUNT):
            made.produce("orders", b"%d" % number)
        assert made.flush(20) == 0
        found = Guarded(f"https://{broker.admin}", authority.trust, folder / "token")
        found.token_file.write_text(token_of(broker.admin, authority))
        yield found


def token_of(admin: str, authority: Authority) -> str:
    cookie = asked(admin, authority, "/login", {"name": "ada", "password": PASSWORD})
    head, body = cookie["Set-Cookie"].partition(";")[0], {"name": "spark", "role": "viewer"}
    return str(asked(admin, authority, "/tokens", body, Cookie=head)["token"])


def asked(
    admin: str, authority: Authority, path: str, body: dict[str, Any], **headers: str
) -> Any:
    trust = authority.trusted()
    with closing(http.client.HTTPSConnection(admin, timeout=20, context=trust)) as line:
        kind = {"Content-Type": "application/json", **headers}
        line.request("POST", f"/api/v1{path}", json.dumps(body), kind)
        answer = line.getresponse()
        data = answer.read()
    assert answer.status < 300, data
    return json.loads(data) if data else answer.headers


def test_a_query_over_tls_reads_every_record(spark: SparkSession, guarded: Guarded) -> None:
    found = guarded.read(spark, caFile=guarded.ca, tokenFile=guarded.token_file)
    values = {int(row.value) for row in found.select("value").collect()}
    assert values == set(range(COUNT))


def test_a_query_without_the_authority_says_so_at_once(
    spark: SparkSession, guarded: Guarded
) -> None:
    with pytest.raises(Exception, match=r"an authority that is not trusted here.*caFile"):
        guarded.read(spark, tokenFile=guarded.token_file).count()


def test_an_export_over_tls_has_every_record(
    spark: SparkSession, guarded: Guarded, tmp_path: Path
) -> None:
    words = ["export", "run", "orders", "--target", str(tmp_path / "lake"), "--new-target"]
    words += ["--admin", guarded.url, "--ca-file", str(guarded.ca)]
    words += ["--token-file", str(guarded.token_file)]
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 0, done.output
    files = [*(tmp_path / "lake").rglob("*.parquet")]
    assert sum(pq.read_metadata(each).num_rows for each in files) == COUNT
