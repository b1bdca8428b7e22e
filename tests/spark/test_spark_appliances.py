"""Several appliances as one source: rows, bounds and checkpoints tell them apart."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from appliance_spark.options import Given, OptionInvalid
from appliance_spark.planning import DataLost, Planner, TopicMadeAnew, settings_of
from appliance_spark.stream_read import StreamReader
from appliance_spark.zookeeper_path import appliances_at
from tests.spark.test_spark_read import OFFERS_FILTERS
from tests.spark.test_spark_stream import numbers, run
from tests.support.spark_data import Sending, Topics
from tests.support.warm_broker import WarmBroker as Broker
from tests.support.zookeeper import serving_zookeeper_in

CLICKS = "clicks"


@pytest.fixture(scope="module")
def south(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sending]:
    with Broker(tmp_path_factory.mktemp("south") / "data") as made:
        yield Sending(made)


@pytest.fixture(scope="module")
def both(topics: Topics, south: Sending) -> dict[str, str]:
    """The option; the topic of the one has two partitions, that of the other has one."""
    topics.create(CLICKS, 2)
    topics.send(CLICKS, numbers(0, 5), 0)
    topics.send(CLICKS, numbers(5, 8), 1)
    south.create(CLICKS)
    south.send(CLICKS, numbers(100, 107))
    named = {"north": topics.options["url"], "south": f"http://{south.broker.admin}"}
    return {"appliances": json.dumps(named)}


def read(topics: Topics, **options: Any) -> DataFrame:
    return topics.spark.read.format("appliance").options(**options).load()


def counts(frame: DataFrame) -> dict[tuple[str, int], int]:
    found = frame.groupBy("appliance", "topic", "partition").count().collect()
    assert {row.topic for row in found} <= {CLICKS}
    return {(row.appliance, row.partition): row["count"] for row in found}


def test_rows_have_the_name_of_their_appliance(topics: Topics, both: dict[str, str]) -> None:
    frame = read(topics, **both, subscribe=CLICKS)
    assert counts(frame) == {("north", 0): 5, ("north", 1): 3, ("south", 0): 7}
    some = frame.where("appliance = 'south' and topic = 'clicks'")
    assert some.rdd.getNumPartitions() == (1 if OFFERS_FILTERS else 3)
    assert sorted(bytes(row.value) for row in some.collect()) == numbers(100, 107)


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({"subscribe": "south/clicks"}, {("south", 0): (0, 7)}),
        ({"subscribePattern": "cli.*"},
         {("north", 0): (0, 5), ("north", 1): (0, 3), ("south", 0): (0, 7)}),
        ({"subscribePattern": "(south|west)/cli.*"}, {("south", 0): (0, 7)}),
        ({"assign": '{"clicks": [0], "north/clicks": [1]}'},
         {("north", 1): (0, 3), ("south", 0): (0, 7)}),
        ({"subscribe": CLICKS, "startingOffsets": json.dumps(
            {"north/clicks": {"0": 4, "1": -2}, "south/clicks": {"0": 6}})},
         {("north", 0): (4, 5), ("north", 1): (0, 3), ("south", 0): (6, 7)}),
    ],
)  # fmt: skip
def test_options_name_the_topic_of_one(
    both: dict[str, str], options: dict[str, str], wanted: dict[tuple[str, int], tuple[int, int]]
) -> None:
    from appliance_spark.bounds import ending, starting

    given = Given({**both, **options})
    planner = Planner(settings_of(given))
    splits = planner.splits(planner.resolve(starting(given, "earliest"), ending(given)))
    found = {(each.appliance, each.partition): (each.start, each.end) for each in splits}
    assert found == wanted
    assert {each.topic for each in splits} == {CLICKS}


def test_a_stream_of_both_goes_on_where_it_was(
    topics: Topics, south: Sending, both: dict[str, str], tmp_path: Path
) -> None:
    for each in (topics, south):
        each.create("streamed")
        each.send("streamed", numbers(0, 4))
    options = {**both, "subscribe": "streamed", "startingOffsets": "earliest"}
    rows = topics.spark.readStream.format("appliance").options(**options).load()
    assert run(rows, tmp_path / "out") == [8]
    south.send("streamed", numbers(4, 6))
    assert run(rows, tmp_path / "out") == [2]
    last = Path(f"{tmp_path}/out-checkpoint/offsets/1").read_text().splitlines()[-1]
    assert json.loads(last) == {
        "north/streamed": {"0": 4, "id": topics.topic_id("streamed")},
        "south/streamed": {"0": 6, "id": south.topic_id("streamed")},
    }
    reader = StreamReader(Given(options), StructType([]))
    south.delete("streamed")
    south.create("streamed")
    with pytest.raises(TopicMadeAnew, match="topic south/streamed was deleted and made anew"):
        reader.partitions(json.loads(last), reader.reach())


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"subscribe": CLICKS, "url": "http://h:1"}, "url and appliances: wanted one"),
        ({"subscribe": "east/clicks"}, "appliances north, south, and the topic east/clicks"),
        ({"subscribe": CLICKS, "appliances": "[]"}, r"appliances: got \[\], wanted"),
        ({"subscribe": CLICKS, "appliances": '{"a/b": "http://h:1"}'}, "wanted .*north"),
        ({"subscribe": CLICKS, "appliances": '{"a": "h:1"}'}, "got 'h:1', wanted http"),
    ],
)
def test_what_is_wrong_is_said(both: dict[str, str], options: dict[str, str], told: str) -> None:
    with pytest.raises(OptionInvalid, match=told):
        Planner(settings_of(Given({**both, **options})))


def test_a_topic_that_one_of_them_lacks_is_refused(topics: Topics, both: dict[str, str]) -> None:
    topics.create("north-only")
    reader = StreamReader(Given({**both, "subscribe": "north-only"}), StructType([]))
    with pytest.raises(Exception, match=r"404.*north-only"):
        reader.reach()
    named = StreamReader(Given({**both, "subscribe": "north/north-only"}), StructType([]))
    assert [*named.reach()] == ["north/north-only"]


def test_one_cluster_under_two_names_is_refused(topics: Topics, both: dict[str, str]) -> None:
    url = topics.options["url"]
    given = {"subscribe": CLICKS, "appliances": json.dumps({"a": url, "b": url})}
    reader = StreamReader(Given(given), StructType([]))
    with pytest.raises(OptionInvalid, match="a/clicks and b/clicks are the same topic, of the"):
        reader.reach()


@pytest.mark.parametrize("name", ["east/clicks", CLICKS])
def test_a_checkpoint_of_other_appliances_is_refused(both: dict[str, str], name: str) -> None:
    reader = StreamReader(Given({**both, "subscribe": CLICKS}), StructType([]))
    with pytest.raises(OptionInvalid, match=f"topic {name}, of an option or a checkpoint, is of"):
        reader.partitions({}, {name: {"0": 1}})
    with pytest.raises(DataLost, match=f"'{name}', '0'.* are there no more"):
        reader.partitions({name: {"0": 1}}, reader.reach())


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KazooClient]:
    """A ZooKeeper in which we write as brokers do."""
    with serving_zookeeper_in(tmp_path_factory.mktemp("zookeeper")) as server:
        client = KazooClient(str(server.address))
        client.start()
        yield client
        client.stop()
        client.close()


def registered(nodes: KazooClient, path: str, *brokers: bytes) -> str:
    for number, data in enumerate(brokers, 1):
        nodes.create(f"{path}/brokers/ids/{number}", data, makepath=True)
    host, port = nodes.hosts[0]
    return f"{host}:{port}{path}"


def test_all_that_are_registered_at_a_path_are_read(
    nodes: KazooClient, topics: Topics, south: Sending, both: dict[str, str]
) -> None:
    north = topics.broker.admin
    given = {"zookeeper": registered(nodes, "/site", b"127.0.0.1:9092", b"creator:127.0.0.1:9093"),
             "zookeeper.admin.urls": f"1=http://{north}, 2=http://{south.broker.admin}/"}
    frame = read(topics, **given, subscribe=CLICKS)
    assert counts(frame) == {("1", 0): 5, ("1", 1): 3, ("2", 0): 7}


def test_brokers_of_a_cluster_are_alternatives(nodes: KazooClient, topics: Topics) -> None:
    one = json.dumps({"host": "10.0.0.1", "port": 9092}).encode()
    path = registered(nodes, "/cluster", one, one.replace(b"10.0.0.1", b"fd00::1"))
    assert appliances_at(Given({"zookeeper": path})) == {
        "": "http://10.0.0.1:8780,http://[fd00::1]:8780"}


def test_a_token_is_not_sent_to_where_a_node_says(nodes: KazooClient) -> None:
    given = {"zookeeper": registered(nodes, "/foreign", b"10.0.0.1:9092", b"10.0.0.2:9092"),
             "zookeeper.admin.urls": "1=https://box1:8780", "token": "secret"}
    with pytest.raises(OptionInvalid, match=r"zookeeper.admin.urls has no 2$"):
        appliances_at(Given(given))
    given["zookeeper.admin.urls"] += ",2=https://box2:8780"
    assert appliances_at(Given(given)) == {"1": "https://box1:8780", "2": "https://box2:8780"}


@pytest.mark.parametrize(
    "data", [b"", b"nonsense", b"{", b'{"host": 1}', b'{"host": "a/b"}', b"[]"]
)
def test_a_node_that_tells_no_host_is_refused(nodes: KazooClient, data: bytes) -> None:
    path = registered(nodes, f"/spoilt-{data.hex()}", data)
    with pytest.raises(OptionInvalid, match="/brokers/ids/1: wanted a broker's host, got"):
        appliances_at(Given({"zookeeper": path}))


def test_a_path_without_brokers_is_refused(nodes: KazooClient) -> None:
    with pytest.raises(OptionInvalid, match=r"no broker is registered at .*/nobody/brokers/ids"):
        appliances_at(Given({"zookeeper": registered(nodes, "/nobody")}))
    with pytest.raises(OptionInvalid, match="wanted 2=https://box2:8780"):
        appliances_at(Given({"zookeeper": "h:1", "zookeeper.admin.urls": "box2:8780"}))


def test_of_several_brokers_any_that_answers_makes_the_plan(
    topics: Topics, both: dict[str, str]
) -> None:
    given = {"subscribe": CLICKS, "url": f"http://127.0.0.1:1, {topics.options['url']}/",
             "fetchOffset.numRetries": "0"}  # fmt: skip
    assert StreamReader(Given(given), StructType([])).reach()[CLICKS]["0"] == 5
    nobody = {**given, "url": "http://127.0.0.1:1,http://127.0.0.1:2"}
    with pytest.raises(ConnectionError, match=r"127.0.0.1:1/.*, http://127.0.0.1:2/.*: 1 tries"):
        StreamReader(Given(nobody), StructType([])).reach()
