"""Numbers as they are said; and a disk that is full, said the same by everybody who tells it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner
from confluent_kafka import KafkaError, Producer

from appliance.cli.main import main
from appliance.config import StorageConfig
from appliance.data_dir.log_dir import LogDir
from appliance.errors import StorageFull, from_code
from appliance.process.spoken import disk_full, size
from appliance.record import _batch_builder
from appliance.testing import running_broker
from tests.support.logs import NOW, log_config
from tests.support.rest import Rest
from tests.support.wire_client import WireClient

GIB = 1 << 30
MORE_THAN_THERE_IS = 1 << 60
SAID = re.compile(
    r"the disk is full: [\d.]+ [GT]iB free, [\d.]+ TiB wanted \(storage\.low\.water\.bytes\); "
    "writes are refused until there is room: delete topics, or shorten what they keep"
)


IN_SHORT = re.compile(
    r"the disk is full: \d+ MiB free, \d+ MiB wanted \(storage\.low\.water\.bytes\); writes resume "
    "when space is freed"
)


def test_sizes_are_said_in_the_largest_unit_of_which_there_is_one() -> None:
    assert [size(each) for each in (0, 1023, 1024, 2 * GIB - 1, 3 << 40)] == [
        "0 B", "1023 B", "1.0 KiB", "2.0 GiB", "3.0 TiB",
    ]  # fmt: skip
    assert size(None) == "-"


def test_a_full_disk_says_what_is_there_and_what_is_wanted_to_go_on() -> None:
    # an eighth above the mark, where writes are taken again
    assert "1.5 GiB free, 2.2 GiB wanted" in disk_full(3 * GIB // 2, 2 * GIB)
    assert "2.1 GiB free, 2.2 GiB wanted" in disk_full(21 * GIB // 10, 2 * GIB)
    told = disk_full(5 * GIB, 2 * GIB)
    assert "its file system refuses writes at 5.0 GiB free: a quota, or its inodes" in told
    assert "wanted" not in told


def test_whatever_fails_for_want_of_space_says_so() -> None:
    assert str(from_code(-60, "t-0: cannot be opened")) == "the disk is full: t-0: cannot be opened"


def test_a_log_says_that_the_disk_is_full_and_nothing_of_the_batch(tmp_path: Path) -> None:
    config = StorageConfig(reserve_bytes=0, low_water_bytes=MORE_THAN_THERE_IS)
    logs = LogDir.open(tmp_path, config)
    log = logs.create("t", 0, log_config())
    data = _batch_builder.batch([(NOW, b"k", b"v")])
    for append in (log.append, lambda batch: log.append_in_place(bytearray(batch))):
        with pytest.raises(StorageFull, match=SAID) as told:
            append(data)
        assert "batch" not in str(told.value)
    logs.close()


def test_everybody_tells_of_a_full_disk_in_these_words(tmp_path: Path) -> None:
    settings = {"storage.low.water.bytes": str(MORE_THAN_THERE_IS), "num.partitions": "1"}
    with running_broker(tmp_path, settings) as broker:
        rest = Rest(broker.admin)
        rest.post("/topics", {"name": "orders", "partitions": 1})
        health = rest.get("/health")
        assert health["status"] == "failing"
        assert SAID.search(health["sentence"])
        message = {"messages": [{"value": {"text": "x"}}]}
        answer = rest.ask("POST", "/topics/orders/messages", message)
        assert answer.status >= 500
        assert SAID.search(answer.body["error"]["message"])
        host, port = broker.bootstrap.split(":")
        with WireClient((host, int(port))) as client:
            (told,) = client.produce(_batch_builder.batch([(NOW, b"k", b"v")]), topic="orders")
        assert told.error_code == 56
        assert IN_SHORT.fullmatch(told.error_message)
        run = CliRunner().invoke(main, ["produce", "orders", "--admin", broker.admin], input="x\n")
        assert run.exit_code != 0
        assert SAID.search(run.output)
        told: list[KafkaError] = []
        producer = Producer({"bootstrap.servers": broker.bootstrap, "message.timeout.ms": 1000})
        producer.produce("orders", "x", on_delivery=lambda error, _: told.append(error))
        producer.flush(20)
        assert told[0] is not None
