"""What `TxnClient` wants of a control plane, asked of any broker over a socket, a Kafka too."""

from __future__ import annotations

from typing import Any, NamedTuple
from uuid import UUID

from appliance.protocol import API
from appliance.protocol.messages.metadata import MetadataRequest
from tests.support.control import KEYS
from tests.support.doors import Address, Door, door_to
from tests.support.wire_client import frame_of


class Sent(NamedTuple):
    key: int
    version: int


class RemoteControl:
    def __init__(self, place: Door | Address) -> None:
        self.wire = door_to(place).open()
        self._topics: dict[str, UUID] = {}

    def close(self) -> None:
        self.wire.socket.close()

    def topic_id(self, name: str) -> UUID:
        if name not in self._topics:
            asked = MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name=name)])
            self._topics[name] = self.ask(asked, 12).topics[0].topic_id
        return self._topics[name]

    def ask(self, request: Any, version: int) -> Any:
        return self.answer(self.send(request, version))

    def send(self, request: Any, version: int) -> Sent:
        key = KEYS[type(request)]
        self.wire.send(frame_of(request, key, version))
        return Sent(key, version)

    def answer(self, sent: Sent) -> Any:
        return self.wire.answer(API[sent.key].response, sent.key, sent.version)
