"""Produce requests that the mirror writes in parts."""

from __future__ import annotations

from appliance.mirror.produce_body import FIRST, LAST, produce_body
from appliance.mirror.site import TopicPartition
from appliance.protocol import codec
from appliance.protocol.messages.produce import ProduceRequest


def test_a_request_in_parts_is_the_one_of_the_tables() -> None:
    batches = {TopicPartition("t", 0): [b"one", b"two"], TopicPartition("u", 3): [b"x" * 300],
               TopicPartition("t", 1): [b"y"]}
    for transactional_id, sources in ((None, {"t": "cluster/topic"}), ("mirror.a", {})):
        parts = produce_body(transactional_id, 1234, batches, sources)
        request = ProduceRequest(transactional_id, -1, 1234)
        for name, rows in (("t", [(0, b"onetwo"), (1, b"y")]), ("u", [(3, b"x" * 300)])):
            topic = ProduceRequest.TopicProduceData(name, mirror_source=sources.get(name, ""))
            topic.partition_data = [ProduceRequest.PartitionProduceData(*row) for row in rows]
            request.topic_data.append(topic)
        for version in range(FIRST, LAST + 1):
            assert b"".join(parts) == codec.encode(request, version)
