"""DuckDB and Polars read a partition over HTTP, with a token, as in docs/export.md."""

from __future__ import annotations

import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any, NamedTuple

import duckdb
import polars
import pytest
from confluent_kafka import Producer

from appliance.testing import running_broker
from tests.support.duck import a_duck
from tests.support.people import logged_in, make_people

COUNT = 2000
ROWS = [(n, f"value {n}") for n in range(COUNT)]


class Served(NamedTuple):
    url: str  # URL of a partition, up to the format
    token: str

    def open(self, kind: str) -> Any:
        headers = {"Authorization": f"Bearer {self.token}"}
        return urllib.request.urlopen(urllib.request.Request(self.url + kind, headers=headers))


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("readers")
    make_people(folder)
    with running_broker(folder) as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap, "log_level": 0,
                             "compression.type": "zstd", "batch.num.messages": 100})
        for n in range(COUNT):
            producer.produce("t", f"value {n}", f"k{n}", partition=0)
        assert producer.flush(20) == 0
        ada = logged_in(broker, "ada")
        made = ada.ask("POST", "/tokens", {"name": "duck", "role": "viewer"}).body
        url = f"http://{broker.admin}/export/v1/topics/t/partitions/0/batches?format="
        yield Served(url, made["token"])


@pytest.mark.parametrize(
    ("kind", "value", "reader"),
    [("parquet", "value::blob::varchar", "read_parquet"), ("csv", "value", "read_csv"),
     ("jsonl", "value", "read_ndjson")],
)
def test_duckdb_reads_it_by_its_address(
    served: Served, kind: str, value: str, reader: str
) -> None:
    query = f"""select "offset", {value} from {reader}('{served.url}{kind}') order by "offset" """
    with a_duck("httpfs") as duck:
        with pytest.raises(duckdb.HTTPException):
            duck.execute(query)
        duck.execute(f"create secret (type http, bearer_token '{served.token}')")
        assert duck.execute(query).fetchall() == ROWS


def test_polars_reads_what_is_opened_for_it(served: Served) -> None:
    with pytest.raises(urllib.error.HTTPError, match="401"):
        Served(served.url, "no token of anybody").open("arrow")
    read = {
        "arrow": polars.read_ipc_stream, "parquet": polars.read_parquet,
        "csv": polars.read_csv, "jsonl": polars.read_ndjson,
    }
    for kind, reader in read.items():
        with served.open(kind) as answer:
            frame = reader(answer.read())
        text = polars.col("value")
        if frame.schema["value"] == polars.Binary:
            text = text.cast(polars.String)
        assert frame.select(polars.col("offset"), text).rows() == ROWS, kind
