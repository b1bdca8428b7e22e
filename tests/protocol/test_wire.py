"""The codecs: every message there and back, and nothing believed that bytes claim."""

from __future__ import annotations

import copy
import dataclasses
import math
import pickle
import random
import struct
import time
import tracemalloc
import uuid
from typing import Any

import pytest

from appliance import protocol
from appliance.protocol import codec, headers
from appliance.protocol.errors import ErrorCode, VersionUnsupported
from appliance.protocol.headers import RequestHeader
from appliance.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from appliance.protocol.messages.alter_client_quotas import AlterClientQuotasRequest
from appliance.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from appliance.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from appliance.protocol.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from appliance.protocol.messages.fetch import FetchResponse
from appliance.protocol.messages.find_coordinator import FindCoordinatorRequest
from appliance.protocol.messages.metadata import MetadataRequest, MetadataResponse
from appliance.protocol.messages.produce import ProduceRequest
from appliance.protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest
from appliance.protocol.types import Message, array, field, int32, rows_of, string
from tests.support.wire_frames import OWN_TAG, made, messages, versions_of_messages

ROUNDS = 4
OF_EACH_MESSAGE = pytest.mark.parametrize(
    ("message", "versions"),
    versions_of_messages(),
    ids=lambda value: getattr(value, "__name__", ""),
)
BOMB_BYTES_MAX = 64 << 10  # what may be held while a few hostile bytes are refused
BOMB_SECONDS_MAX = 0.5  # loose: a machine under load, but no walk over 2**31 things


@OF_EACH_MESSAGE
def test_a_message_comes_back_as_it_was(message: Any, versions: list[int]) -> None:
    for version in versions:
        chance = random.Random(f"{message.__name__} {version}")
        for _ in range(ROUNDS):
            sent = made(message, version, chance)
            assert codec.decode(message, codec.encode(sent, version), version) == sent, version


@OF_EACH_MESSAGE
def test_defaults_come_back_as_they_were(message: Any, versions: list[int]) -> None:
    for version in versions:
        octets = codec.encode(message(), version)
        assert codec.decode(message, octets, version) == message(), version


def test_a_field_that_a_version_lacks_is_left_out() -> None:
    sent = MetadataRequest(include_topic_authorized_operations=True)
    assert codec.encode(sent, 7) == codec.encode(MetadataRequest(), 7)
    assert codec.encode(sent, 8) != codec.encode(MetadataRequest(), 8)


def test_null_is_for_the_versions_that_have_it() -> None:
    assert codec.encode(MetadataRequest(topics=None), 1) == b"\xff\xff\xff\xff"
    with pytest.raises(protocol.MalformedMessage, match="topics: got a count of -1"):
        codec.decode(MetadataRequest, b"\xff\xff\xff\xff", 0)
    with pytest.raises(TypeError):
        codec.encode(MetadataRequest(topics=None), 0)


def test_a_message_is_a_dataclass_that_is_completed_at_its_first_use() -> None:
    class Told(Message):
        name: str = field(string)
        epochs: list[int] = field(array(int32))

    class Other(Message):
        name: str = field(string)

    assert "__init__" not in vars(Told)
    told = Told("t", epochs=[1])
    assert [each.name for each in dataclasses.fields(told)] == ["name", "epochs"]
    assert dataclasses.is_dataclass(Other)
    assert "__init__" in vars(Other), "the question completes it"
    assert dataclasses.replace(told, name="u") == Told("u", [1]) != Told("u")
    assert Other("t") != told
    assert repr(Other("t")).endswith("Other(name='t')")
    assert Told().epochs is not Told().epochs
    with pytest.raises(TypeError, match="unhashable"):
        hash(told)
    with pytest.raises(AttributeError):
        told.nmae = "a typing error"  # type: ignore[attr-defined]
    with pytest.raises(TypeError, match="nmae"):
        Told(nmae="another")  # type: ignore[call-arg]


def test_what_all_messages_are_of_is_none_itself() -> None:
    with pytest.raises(TypeError):
        Message()
    assert DescribeTopicPartitionsRequest(response_partition_limit=1).response_partition_limit == 1


def test_a_message_is_pickled_and_copied() -> None:
    cursor = DescribeTopicPartitionsRequest.Cursor(topic_name="t", partition_index=2)
    assert pickle.loads(pickle.dumps(cursor)) == cursor == copy.deepcopy(cursor)


def test_a_nullable_struct_has_a_byte_before_it() -> None:
    cursor = DescribeTopicPartitionsRequest.Cursor(topic_name="t", partition_index=2)
    without = codec.encode(DescribeTopicPartitionsRequest(), 0)
    there = codec.encode(DescribeTopicPartitionsRequest(cursor=cursor), 0)
    assert without == b"\x01\x00\x00\x07\xd0\xff\x00"
    assert there == b"\x01\x00\x00\x07\xd0\x01\x02t\x00\x00\x00\x02\x00\x00"


def test_a_null_struct_is_not_an_empty_one() -> None:
    for assignment in (None, ConsumerGroupHeartbeatResponse.Assignment()):
        sent = ConsumerGroupHeartbeatResponse(assignment=assignment)
        octets = codec.encode(sent, 0)
        assert codec.decode(ConsumerGroupHeartbeatResponse, octets, 0) == sent


def test_a_struct_in_a_tag_is_there_only_when_it_differs() -> None:
    partition = FetchResponse.PartitionData(records=b"")
    topic = FetchResponse.FetchableTopicResponse(partitions=[partition])
    usual = codec.encode(FetchResponse(responses=[topic]), 16)
    partition.current_leader = FetchResponse.LeaderIdAndEpoch(leader_id=1, leader_epoch=7)
    hinted = codec.encode(FetchResponse(responses=[topic]), 16)
    tag = b"\x01\x01\x09\x00\x00\x00\x01\x00\x00\x00\x07\x00"  # one tag: 1, of nine bytes
    assert len(hinted) == len(usual) + len(tag) - 1
    assert tag in hinted
    assert codec.decode(FetchResponse, hinted, 16).responses == [topic]


def test_tags_go_in_the_order_of_their_numbers() -> None:
    sent = ApiVersionsResponse(zk_migration_ready=True, finalized_features_epoch=5)
    assert codec.encode(sent, 3)[-14:] == b"\x02\x01\x08" + bytes(7) + b"\x05\x03\x01\x01"


def test_unknown_tags_are_passed_over() -> None:
    known = codec.encode(ApiVersionsResponse(finalized_features_epoch=5), 3)
    assert known.endswith(b"\x01\x01\x08" + (5).to_bytes(8, "big"))
    more = known[:-11] + b"\x03" + known[-10:] + b"\x63\x02??" + b"\x80\x01\x00"
    read = codec.decode(ApiVersionsResponse, more, 3)
    assert read.finalized_features_epoch == 5
    assert codec.decode(ApiVersionsRequest, b"\x02a\x02b\x01\x07\x03xyz", 3) == (
        ApiVersionsRequest(client_software_name="a", client_software_version="b")
    )


def test_a_tag_of_the_wrong_size_is_malformed() -> None:
    octets = bytearray(codec.encode(ApiVersionsResponse(finalized_features_epoch=5), 3))
    octets[-9] = 9
    with pytest.raises(protocol.MalformedMessage, match="tag 1: got 9 bytes, wanted 8"):
        codec.decode(ApiVersionsResponse, bytes(octets) + b"\0", 3)


def test_uint16_and_float64() -> None:
    endpoint = StreamsGroupHeartbeatRequest.Endpoint(host="h", port=65_535)
    sent = StreamsGroupHeartbeatRequest(user_endpoint=endpoint)
    octets = codec.encode(sent, 0)
    assert b"\x02h\xff\xff\x00" in octets
    assert codec.decode(StreamsGroupHeartbeatRequest, octets, 0) == sent
    change = AlterClientQuotasRequest.OpData(key="k", value=math.pi)
    entry = AlterClientQuotasRequest.EntryData(ops=[change])
    quotas = AlterClientQuotasRequest(entries=[entry])
    assert struct.pack(">d", math.pi) in codec.encode(quotas, 1)


def test_a_field_of_early_versions_has_its_place() -> None:
    """The first version without `transactions` still knows the one transaction in line."""
    sent = AddPartitionsToTxnRequest(v3_and_below_transactional_id="x")
    assert codec.encode(sent, 3) == b"\x02x" + bytes(8) + bytes(2) + b"\x01\x00"
    assert codec.encode(sent, 4) == b"\x01\x00"


def test_no_id_is_the_zero_uuid() -> None:
    octets = codec.encode(MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic()]), 12)
    (topic,) = codec.decode(MetadataRequest, octets, 12).topics or []
    assert topic.topic_id is protocol.NO_UUID
    assert uuid.UUID(int=0) == protocol.NO_UUID


def test_bytes_of_any_kind_are_read_and_written() -> None:
    view: Any = memoryview(b"abc")
    partition = ProduceRequest.PartitionProduceData(records=view)
    topic = ProduceRequest.TopicProduceData(name="t", partition_data=[partition])
    octets = codec.encode(ProduceRequest(topic_data=[topic]), 9)
    read = codec.decode(ProduceRequest, memoryview(b"??" + octets)[2:], 9)
    assert read.topic_data[0].partition_data[0].records == b"abc"


def test_what_does_not_fit_is_not_written() -> None:
    for message in (FindCoordinatorRequest(key="k" * (1 << 15)), RequestHeader(1, 1, 1 << 31)):
        with pytest.raises(OverflowError):
            headers.REQUEST.encode(message) if isinstance(message, RequestHeader) else (
                codec.encode(message, 0)
            )
    with pytest.raises(UnicodeEncodeError):
        codec.encode(FindCoordinatorRequest(key="\ud800"), 0)


def test_large_parts_are_not_copied() -> None:
    large, small = b"x" * 5000, b"y" * 100
    pieces: Any = codec.Pieces((small, large))
    partition = ProduceRequest.PartitionProduceData(records=pieces)
    topic = ProduceRequest.TopicProduceData(name="t", partition_data=[partition])
    sent = ProduceRequest(topic_data=[topic])
    parts = codec.encode_parts(sent, 9)
    assert [each is large for each in parts] == [False, True, False]
    partition.records = small + large
    assert b"".join(parts) == codec.encode(sent, 9)


def test_long_things_have_long_varints() -> None:
    name = "n" * 70_000
    octets = codec.encode(ApiVersionsRequest(client_software_name=name), 3)
    assert octets.startswith(b"\xf1\xa2\x04n")
    assert codec.decode(ApiVersionsRequest, octets, 3).client_software_name == name


@pytest.mark.parametrize("version", [-1, 14])
def test_a_version_out_of_range_is_refused(version: int) -> None:
    with pytest.raises(VersionUnsupported, match=f"got version {version}, wanted 0 to 13"):
        codec.decode(MetadataRequest, b"", version)
    with pytest.raises(VersionUnsupported):
        codec.encode(MetadataResponse(), version)


HUGE = b"\xff\xff\xff\xff\x0f"  # 2**32 - 1 as a varint
TOPIC = bytes(8) + b"\xff\xff" + bytes(4) + b"\0\0\0\1" + b"\0\0\0\1t\0\0\0\0\1" + bytes(10)
TAG = bytes(2) + b"\x01" + bytes(4) + b"\x01"
BOMBS = [
    ("structs", MetadataRequest, 1, b"\x7f\xff\xff\xff", "topics: got a count of 2147483647"),
    ("structs, compact", MetadataRequest, 9, HUGE, "topics: got a count of 4294967294"),
    ("too many structs", MetadataRequest, 9, b"\x3e" + bytes(100), "topics: got a count of 61"),
    (
        "numbers",
        MetadataResponse,
        5,
        TOPIC + b"\x7f\xff\xff\xff" + bytes(8),
        "nodes: got a count of 2",
    ),
    ("too many numbers", MetadataResponse, 5, TOPIC + b"\0\0\0\3" + bytes(8), "of 3, 8 bytes"),
    (
        "negative numbers",
        MetadataResponse,
        5,
        TOPIC + b"\xff\xff\xff\xfe" + bytes(8),
        "a count of -2",
    ),
    ("negative array", MetadataRequest, 1, b"\xff\xff\xff\xfe", "topics: got a count of -2"),
    ("negative string", FindCoordinatorRequest, 0, b"\xff\xff", "key: got a count of -1"),
    ("negative or null", ProduceRequest, 3, b"\xff\xfe", "transactional_id: got a count of -2"),
    ("string", ProduceRequest, 3, b"\x7f\xff", "transactional_id: got a count of 32767"),
    ("string, compact", ApiVersionsRequest, 3, HUGE, "software_name: got a count of 4294967294"),
    ("tags", ApiVersionsRequest, 3, b"\x01\x01" + HUGE, "wanted more than 7 bytes"),
    ("long tag", ApiVersionsRequest, 3, b"\x01\x01\x01\x05" + HUGE, "tag 5: got a count of 42"),
    ("long known tag", ApiVersionsResponse, 3, TAG + b"\0" + HUGE, "tag 0: got a count of 42"),
    (
        "array in a tag",
        ApiVersionsResponse,
        3,
        TAG + b"\0\6" + HUGE + b"\0",
        "supported_features: ",
    ),
    ("endless varint", ApiVersionsRequest, 3, b"\xff" * 40, "more than five bytes"),
    ("not UTF-8", ApiVersionsRequest, 3, b"\x03\xff\xfe\x01\x00", "can't decode byte 0xff"),
]


@pytest.mark.alone
@pytest.mark.parametrize(
    ("message", "version", "body", "text"),
    [row[1:] for row in BOMBS],
    ids=[row[0] for row in BOMBS],
)
def test_a_bomb_is_refused_before_it_costs(
    message: Any, version: int, body: bytes, text: str
) -> None:
    codec.decode(message, codec.encode(message(), version), version)  # generates the functions
    wanted = f"{message.__name__} version {version}: .*{text}"
    tracemalloc.start()
    began = time.perf_counter()
    try:
        with pytest.raises(protocol.MalformedMessage, match=wanted):
            codec.decode(message, body, version)
        assert tracemalloc.get_traced_memory()[1] < BOMB_BYTES_MAX
    finally:
        tracemalloc.stop()
    assert time.perf_counter() - began < BOMB_SECONDS_MAX


def structs_of(message: type) -> list[type]:
    return [message, *(each for each in vars(message).values() if isinstance(each, type))]


@pytest.mark.parametrize("key", protocol.API)
def test_tags_stand_in_order_in_the_tables(key: int) -> None:
    """The encoder relies on it: Kafka writes a tag section in ascending order."""
    api = protocol.API[key]
    for struct_class in [*structs_of(api.request), *structs_of(api.response)]:
        tags = [row.tag for _, row in rows_of(struct_class) if row.tag is not None]
        kafkas = [tag for tag in tags if tag < OWN_TAG]
        assert tags == [*range(len(kafkas)), *range(OWN_TAG, OWN_TAG + len(tags) - len(kafkas))]


@pytest.mark.parametrize(("message", "version"), messages())
def test_noise_is_read_or_malformed(message: Any, version: int) -> None:
    chance = random.Random(f"noise {message.__name__} {version}")
    for size in (0, 1, 2, 3, 5, 8, 13, 21, 34, 200):
        try:
            codec.decode(message, chance.randbytes(size), version)
        except protocol.MalformedMessage:
            continue


def test_every_code_of_kafka_has_a_name() -> None:
    assert protocol.MalformedMessage.kafka_code == ErrorCode.INVALID_REQUEST
    assert VersionUnsupported.kafka_code == ErrorCode.UNSUPPORTED_VERSION
    assert [code.value for code in ErrorCode] == list(range(-1, 134))


def test_the_table_holds_each_api_under_its_key() -> None:
    for key, api in protocol.API.items():
        assert api.key == key
        assert (api.request.__name__, api.response.__name__) == (
            f"{api.name}Request",
            f"{api.name}Response",
        )
        assert api.request.VERSIONS is api.response.VERSIONS


@pytest.mark.parametrize("key", protocol.API)
def test_a_request_header_comes_back_as_it_was(key: int) -> None:
    for version in range(protocol.API[key].versions[0], protocol.API[key].versions[1] + 1):
        sent = RequestHeader(key, version, 77, "client")
        header, body = headers.decode_request(headers.encode_request(sent) + b"body")
        assert (header, bytes(body)) == (sent, b"body")
        reply = headers.encode_response_header(key, version, 77) + b"body"
        correlation_id, rest = headers.decode_response(reply, key, version)
        assert (correlation_id, bytes(rest)) == (77, b"body")


def test_the_client_id_is_not_compact_in_a_flexible_header() -> None:
    sent = RequestHeader(3, 9, 1, "me")
    assert headers.encode_request(sent) == b"\0\x03\0\x09\0\0\0\x01\0\x02me\0"


def test_a_null_client_id_counts_as_empty() -> None:
    octets = headers.encode_request(RequestHeader(3, 1, 1, None))
    assert octets.endswith(b"\xff\xff")
    assert headers.decode_request(octets)[0].client_id == ""


def test_the_reply_to_api_versions_never_has_tags() -> None:
    assert headers.encode_response_header(18, 3, 9) == b"\0\0\0\x09"
    assert headers.encode_response_header(3, 9, 9) == b"\0\0\0\x09\0"


def test_a_version_yet_unknown_has_a_flexible_header() -> None:
    header, body = headers.decode_request(b"\0\x12\x7f\xff\0\0\0\x01\0\x01c\0rest")
    assert (header.api_version, header.client_id, bytes(body)) == (32_767, "c", b"rest")


def test_a_key_yet_unknown_has_a_header_without_tags() -> None:
    header, body = headers.decode_request(b"\x03\xe7\0\0\0\0\0\x01\0\x01crest")
    assert (header.api_key, bytes(body)) == (999, b"rest")


def test_tags_of_a_header_are_passed_over() -> None:
    header, body = headers.decode_request(b"\0\x03\0\x09\0\0\0\x01\0\0\x01\x00\x02hirest")
    assert (header.correlation_id, bytes(body)) == (1, b"rest")


def test_a_header_cut_anywhere_is_malformed() -> None:
    octets = headers.encode_request(RequestHeader(3, 9, 1, "äh"))
    for size in range(len(octets)):
        with pytest.raises(protocol.MalformedMessage):
            headers.decode_request(octets[:size])
    for size in range(5):
        with pytest.raises(protocol.MalformedMessage):
            headers.decode_response(bytes(size), 3, 9)


@pytest.mark.parametrize("client_id", [b"\xff\xfe", b"\x7f\xff", b"\0\x02\xff\xff"])
def test_a_bad_client_id_is_malformed(client_id: bytes) -> None:
    with pytest.raises(protocol.MalformedMessage):
        headers.decode_request(b"\0\x03\0\x01\0\0\0\x01" + client_id)
