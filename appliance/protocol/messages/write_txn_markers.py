"""WriteTxnMarkers: write the commit or abort markers of transactions into their logs."""

from __future__ import annotations

from typing import ClassVar

from appliance.protocol.types import (
    Api,
    Message,
    Versions,
    array,
    boolean,
    field,
    int8,
    int16,
    int32,
    int64,
    string,
)

VERSIONS = Versions(1, 2, flexible_from=1)


class WriteTxnMarkersRequest(Message):
    VERSIONS: ClassVar = VERSIONS

    class WritableTxnMarkerTopic(Message):
        name: str = field(string)
        partition_indexes: list[int] = field(array(int32))

    class WritableTxnMarker(Message):
        producer_id: int = field(int64)
        producer_epoch: int = field(int16)
        transaction_result: bool = field(boolean)
        topics: list[WriteTxnMarkersRequest.WritableTxnMarkerTopic] = field(
            array(lambda: WriteTxnMarkersRequest.WritableTxnMarkerTopic)
        )
        coordinator_epoch: int = field(int32)
        transaction_version: int = field(int8, "2+")

    markers: list[WritableTxnMarker] = field(array(WritableTxnMarker))


class WriteTxnMarkersResponse(Message):
    VERSIONS: ClassVar = VERSIONS

    class WritableTxnMarkerPartitionResult(Message):
        partition_index: int = field(int32)
        error_code: int = field(int16)

    class WritableTxnMarkerTopicResult(Message):
        name: str = field(string)
        partitions: list[WriteTxnMarkersResponse.WritableTxnMarkerPartitionResult] = field(
            array(lambda: WriteTxnMarkersResponse.WritableTxnMarkerPartitionResult)
        )

    class WritableTxnMarkerResult(Message):
        producer_id: int = field(int64)
        topics: list[WriteTxnMarkersResponse.WritableTxnMarkerTopicResult] = field(
            array(lambda: WriteTxnMarkersResponse.WritableTxnMarkerTopicResult)
        )

    markers: list[WritableTxnMarkerResult] = field(array(WritableTxnMarkerResult))


API = Api(27, "WriteTxnMarkers", WriteTxnMarkersRequest, WriteTxnMarkersResponse)
