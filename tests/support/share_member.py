"""A member of a share group over a real socket, with our own wire tables."""

from __future__ import annotations

import time
import uuid
from typing import Any, NamedTuple

from appliance.protocol import API, codec, headers
from appliance.protocol.messages.share_acknowledge import ShareAcknowledgeRequest
from appliance.protocol.messages.share_fetch import ShareFetchRequest
from appliance.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from tests.support.wire_client import WireClient, frame_of

HEARTBEAT, FETCH, ACKNOWLEDGE = 76, 78, 79
GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)
JOIN_S = 20.0
NOT_READY = (14, 15)  # groups are being read

Ack = tuple[int, int, list[int]]
Place = tuple[uuid.UUID, int]


class Acquired(NamedTuple):
    place: Place
    first: int
    last: int
    delivery_count: int


class ShareMember:
    """Joins, and remembers what a consumer does: member epoch, assignment, share session epoch."""

    def __init__(self, address: tuple[str, int], group: str, topic: str) -> None:
        self.client = WireClient(address)
        self.id = str(uuid.uuid4())
        self.group = group
        self.topic = topic
        self.member_epoch = 0
        self.epoch = 0
        self.assigned: list[Place] = []

    def close(self) -> None:
        self.client.socket.close()

    def __enter__(self) -> ShareMember:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def ask(self, request: Any, key: int, version: int) -> Any:
        self.client.send(frame_of(request, key, version))
        _, body = headers.decode_response(self.client.receive(), key, version)
        return codec.decode(API[key].response, body, version)

    def heartbeat(self) -> None:
        asked = ShareGroupHeartbeatRequest(
            group_id=self.group, member_id=self.id, member_epoch=self.member_epoch
        )
        if self.member_epoch == 0:
            asked.subscribed_topic_names = [self.topic]
        else:
            asked.subscribed_topic_names = None
        answer = self.ask(asked, HEARTBEAT, 1)
        if answer.error_code in NOT_READY:
            time.sleep(0.02)
            return
        assert answer.error_code == 0, answer
        self.member_epoch = answer.member_epoch
        if answer.assignment is not None:
            self.assigned = [
                (row.topic_id, each)
                for row in answer.assignment.topic_partitions
                for each in row.partitions
            ]

    def join(self) -> None:
        deadline = time.monotonic() + JOIN_S
        while not self.assigned:
            assert time.monotonic() < deadline, "nothing was assigned"
            self.heartbeat()
            if not self.assigned:
                time.sleep(0.02)

    def fetch(
        self,
        most: int = 500,
        wait_ms: int = 0,
        acks: dict[Place, list[Ack]] | None = None,
        epoch: int | None = None,
    ) -> Any:
        asked = ShareFetchRequest(
            group_id=self.group,
            member_id=self.id,
            share_session_epoch=self.epoch if epoch is None else epoch,
            max_wait_ms=wait_ms,
            min_bytes=1,
            max_records=most,
            batch_size=most,
        )
        given = acks or {}
        for place in self.assigned if self.epoch == 0 else given:
            rows = [ShareFetchRequest.AcknowledgementBatch(*each) for each in given.get(place, [])]
            part = ShareFetchRequest.FetchPartition(place[1], rows)
            asked.topics.append(ShareFetchRequest.FetchTopic(place[0], [part]))
        answer = self.ask(asked, FETCH, 2)
        self.epoch += 1
        return answer

    def acquire(self, most: int = 500, wait_ms: int = 0) -> list[Acquired]:
        answer = self.fetch(most, wait_ms)
        assert answer.error_code == 0, answer
        return acquired(answer)

    def acknowledge(self, place: Place, *acks: Ack) -> int:
        rows = [ShareAcknowledgeRequest.AcknowledgementBatch(*each) for each in acks]
        part = ShareAcknowledgeRequest.AcknowledgePartition(place[1], rows)
        asked = ShareAcknowledgeRequest(
            group_id=self.group,
            member_id=self.id,
            share_session_epoch=self.epoch,
            topics=[ShareAcknowledgeRequest.AcknowledgeTopic(place[0], [part])],
        )
        answer = self.ask(asked, ACKNOWLEDGE, 2)
        self.epoch += 1
        assert answer.error_code == 0, answer
        return int(answer.responses[0].partitions[0].error_code)


def acquired(answer: Any) -> list[Acquired]:
    found = []
    for topic in answer.responses:
        for row in topic.partitions:
            assert row.error_code == 0, row
            place = (topic.topic_id, row.partition_index)
            found += [
                Acquired(place, each.first_offset, each.last_offset, each.delivery_count)
                for each in row.acquired_records
            ]
    return found
