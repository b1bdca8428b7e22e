from __future__ import annotations

import struct

import pytest

from appliance.protocol import codec
from appliance.protocol.messages.find_coordinator import FindCoordinatorResponse
from appliance.protocol.messages.metadata import MetadataResponse
from bench import interpreters

CODE = 0x0102


def metadata() -> MetadataResponse:
    broker = MetadataResponse.MetadataResponseBroker(1, "127.0.0.1", 9092)
    topic = MetadataResponse.MetadataResponseTopic(error_code=CODE, name="t")
    return MetadataResponse(brokers=[broker], topics=[topic])


@pytest.mark.parametrize(("response", "key_version", "position"), [
    (metadata(), interpreters.METADATA, interpreters.METADATA_ERROR),
    (FindCoordinatorResponse(error_code=CODE), interpreters.FIND_COORDINATOR,
     interpreters.FIND_COORDINATOR_ERROR),
])  # fmt: skip
def test_the_probe_looks_where_the_error_code_is(
    response: object, key_version: tuple[int, int], position: int
) -> None:
    body = struct.pack(">ii", 0, 1) + codec.encode(response, key_version[1])
    assert struct.unpack_from(">h", body, position) == (CODE,)
