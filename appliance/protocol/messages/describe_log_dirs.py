"""DescribeLogDirs: the size of each partition and the free space of each log directory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from appliance.protocol.types import (
    Api,
    Versions,
    array,
    boolean,
    field,
    int16,
    int32,
    int64,
    string,
)

VERSIONS = Versions(1, 5, flexible_from=2)


@dataclass(slots=True)
class DescribeLogDirsRequest:
    VERSIONS: ClassVar = VERSIONS

    @dataclass(slots=True)
    class DescribableLogDirTopic:
        topic: str = field(string)
        partitions: list[int] = field(array(int32))

    topics: list[DescribableLogDirTopic] | None = field(
        array(DescribableLogDirTopic), nullable="0+"
    )


@dataclass(slots=True)
class DescribeLogDirsResponse:
    VERSIONS: ClassVar = VERSIONS

    @dataclass(slots=True)
    class DescribeLogDirsPartition:
        partition_index: int = field(int32)
        partition_size: int = field(int64)
        offset_lag: int = field(int64)
        is_future_key: bool = field(boolean)

    @dataclass(slots=True)
    class DescribeLogDirsTopic:
        name: str = field(string)
        partitions: list[DescribeLogDirsResponse.DescribeLogDirsPartition] = field(
            array(lambda: DescribeLogDirsResponse.DescribeLogDirsPartition)
        )

    @dataclass(slots=True)
    class DescribeLogDirsResult:
        error_code: int = field(int16)
        log_dir: str = field(string)
        topics: list[DescribeLogDirsResponse.DescribeLogDirsTopic] = field(
            array(lambda: DescribeLogDirsResponse.DescribeLogDirsTopic)
        )
        total_bytes: int = field(int64, "4+", default=-1)
        usable_bytes: int = field(int64, "4+", default=-1)
        is_cordoned: bool = field(boolean, "5+")

    throttle_time_ms: int = field(int32)
    error_code: int = field(int16, "3+")
    results: list[DescribeLogDirsResult] = field(array(DescribeLogDirsResult))


API = Api(35, "DescribeLogDirs", DescribeLogDirsRequest, DescribeLogDirsResponse)
