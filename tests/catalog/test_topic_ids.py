"""Ids as Kafka writes them, and the file that tells a directory's."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from appliance.catalog import kafka_uuid
from appliance.data_dir import partition_metadata
from tests.support.catalogs import ORDERS


def test_an_id_is_written_as_kafka_writes_it() -> None:
    # java: Uuid.fromString("7gxDFHLZRl-H1PzvcVlmdA")
    value = uuid.UUID("ee0c4314-72d9-465f-87d4-fcef71596674")
    assert kafka_uuid.text_of(value) == "7gxDFHLZRl-H1PzvcVlmdA"
    assert kafka_uuid.parse("7gxDFHLZRl-H1PzvcVlmdA") == value
    made = {kafka_uuid.text_of(kafka_uuid.new()) for _ in range(300)}
    assert len(made) == 300
    assert not any(each.startswith("-") for each in made)


@pytest.mark.parametrize("text", ["", "A", "7gxDFHLZRl-H1PzvcVlmdA==", "7gxDFHLZRl+H1PzvcVlmdA",
                                  "7gxDFHLZRl-H1PzvcVlmd\u00e4", "7gxDFHLZRl-H1PzvcVlmdB"])
def test_what_is_no_id_is_refused(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        kafka_uuid.parse(text)


def test_a_directory_tells_its_topics_id(tmp_path: Path) -> None:
    assert partition_metadata.read(tmp_path) is None
    partition_metadata.write(tmp_path, ORDERS.id)
    assert (tmp_path / "partition.metadata").read_text() == (
        f"version: 0\ntopic_id: {kafka_uuid.text_of(ORDERS.id)}\n")
    assert partition_metadata.read(tmp_path) == ORDERS.id


@pytest.mark.parametrize("data", [b"", b"\0" * 50, b"version: 0\n", b"version: 1\ntopic_id: x\n",
                                  b"version: 0\ntopic_id: short\n", b"\xff\xfe", b"a\nb\n",
                                  b"version: 0\ntopic_id: " + b"A" * 10_000])
def test_a_torn_or_strange_file_tells_none(data: bytes, tmp_path: Path) -> None:
    (tmp_path / "partition.metadata").write_bytes(data)
    assert partition_metadata.read(tmp_path) is None
