"""Schemas of topics' keys and values in the catalog."""

from __future__ import annotations

from dataclasses import astuple, dataclass

from appliance.catalog.catalog import Catalog


@dataclass(frozen=True)
class TopicSchema:
    """The fields are the columns."""

    topic: str
    part: str  # key, value
    form: str  # avro, protobuf
    text: str
    message: str  # the Protobuf message type; "" if the schema has only one
    updated_ms: int


class TopicSchemaRows:
    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    def of(self, topic: str) -> list[TopicSchema]:
        rows = self._catalog.rows("SELECT * FROM topic_schemas WHERE topic = ?", (topic,))
        return [TopicSchema(*row) for row in rows]

    def put(self, row: TopicSchema) -> None:
        statement = "INSERT OR REPLACE INTO topic_schemas VALUES (?, ?, ?, ?, ?, ?)"
        self._catalog.run(statement, astuple(row))

    def delete(self, topic: str, part: str) -> bool:
        """Whether it existed."""
        statement = "DELETE FROM topic_schemas WHERE (topic, part) = (?, ?)"
        return self._catalog.run(statement, (topic, part)) > 0
