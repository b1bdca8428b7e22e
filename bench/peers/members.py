"""Members of classic groups with little cost: they encode their requests before the measurement,
and read only fields at fixed positions of a response.

    JoinGroup 5    size i32 | correlation i32 | throttle i32 | error i16 | generation i32 | ...
    SyncGroup 3    size i32 | correlation i32 | throttle i32 | error i16 | ...
    Heartbeat 3    the same
"""

from __future__ import annotations

import itertools
import socket
import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from appliance.protocol import API, codec, headers
from appliance.protocol.messages.heartbeat import HeartbeatRequest
from appliance.protocol.messages.join_group import JoinGroupRequest
from appliance.protocol.messages.sync_group import SyncGroupRequest

JOIN, SYNC, HEARTBEAT = (11, 5), (14, 3), (12, 3)
ERROR = struct.Struct(">8xh")  # after the size
GENERATION = struct.Struct(">10xi")
MEMBER_ID_REQUIRED = 79
TIMEOUT_S = 30
TOPIC = b"\0\x06events"
NOBODY: Mapping[str, bytes] = {}
rounds = itertools.count()


class Link:
    """A connection; responses come in the order of the requests."""

    def __init__(self, address: str) -> None:
        host, _, port = address.partition(":")
        self.socket = socket.create_connection((host, int(port)), TIMEOUT_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.send = self.socket.sendall
        self._input = b""

    def answer(self) -> bytes:
        """Reads the next response, without its size."""
        while len(self._input) < 4 or len(self._input) < self._end():
            self._receive()
        whole, self._input = self._input[4 : self._end()], self._input[self._end() :]
        return whole

    def answers(self) -> Iterator[bytes]:
        """Reads the complete responses that have arrived at a readable socket."""
        self._receive()
        while len(self._input) >= 4 and len(self._input) >= self._end():
            yield self.answer()

    def _end(self) -> int:
        return 4 + int.from_bytes(self._input[:4], "big")

    def _receive(self) -> None:
        got = self.socket.recv(65536)
        if not got:
            raise ConnectionError(f"the broker closed after {len(self._input)} bytes of a response")
        self._input += got


def frame(key_version: tuple[int, int], request: Any) -> bytes:
    key, version = key_version
    header = headers.RequestHeader(key, version, 1, "bench")
    whole = headers.encode_request(header) + codec.encode(request, version)
    return struct.pack(">i", len(whole)) + whole


def decoded(key_version: tuple[int, int], whole: bytes) -> Any:
    key, version = key_version
    _, body = headers.decode_response(whole, key, version)
    return codec.decode(API[key].response, body, version)


def ask(link: Link, key_version: tuple[int, int], request: Any) -> Any:
    link.send(frame(key_version, request))
    return decoded(key_version, link.answer())


def must_be_0(whole: bytes, what: str) -> None:
    (code,) = ERROR.unpack_from(whole)
    if code:
        raise ValueError(f"{what}: got error {code}, wanted 0")


class Member:
    def __init__(self, link: Link, group: str) -> None:
        self.link, self.group = link, group
        self.id, self.generation = "", -1

    def join_frame(self, wants: bytes) -> bytes:
        protocol = JoinGroupRequest.JoinGroupRequestProtocol("range", wants)
        return frame(JOIN, JoinGroupRequest(
            self.group, 30_000, 30_000, self.id, None, "consumer", [protocol]))

    def sync_frame(self, generation: int, shares: Mapping[str, bytes] = NOBODY) -> bytes:
        rows = [SyncGroupRequest.SyncGroupRequestAssignment(*each) for each in shares.items()]
        return frame(SYNC, SyncGroupRequest(self.group, generation, self.id, assignments=rows))

    def heartbeat_frame(self) -> bytes:
        return frame(HEARTBEAT, HeartbeatRequest(self.group, self.generation, self.id))

    def take_id(self) -> None:
        response = decoded(JOIN, self.link.answer())
        if response.error_code != MEMBER_ID_REQUIRED:
            raise ValueError(f"JoinGroup: got error {response.error_code}, wanted a member id")
        self.id = response.member_id


def wants() -> bytes:
    """A subscription that differs from the last one. So a JoinGroup waits for all members, even in
    a stable group."""
    user_data = struct.pack(">i", next(rounds))
    return b"\0\1" + b"\0\0\0\1" + TOPIC + b"\0\0\0\4" + user_data + b"\0\0\0\0"


def share(index: int) -> bytes:
    """An assignment of ten partitions of a topic."""
    indexes = struct.pack(">10i", *range(index * 10, index * 10 + 10))
    return b"\0\1" + b"\0\0\0\1" + TOPIC + b"\0\0\0\x0a" + indexes + b"\xff\xff\xff\xff"


class Rebalance:
    """All members of a group join, and each sends SyncGroup after its JoinGroup response. All
    requests are encoded before, because the next generation is known."""

    def __init__(self, members: Sequence[Member]) -> None:
        subscription = wants()
        self._members = members
        self._generation = members[0].generation + 1
        self._joins = [each.join_frame(subscription) for each in members]
        self._syncs = [each.sync_frame(self._generation) for each in members]
        self._leader_sync = members[0].sync_frame(
            self._generation, {each.id: share(index) for index, each in enumerate(members)})

    def join(self) -> None:
        for each, join in zip(self._members, self._joins, strict=True):
            each.link.send(join)

    def sync(self) -> None:
        """The first member is the leader, because it joined first."""
        syncs = iter(self._syncs)
        next(syncs)
        self._sync_one(self._members[0], self._leader_sync)
        for each, sync in zip(self._members[1:], syncs, strict=True):
            self._sync_one(each, sync)

    def _sync_one(self, member: Member, sync: bytes) -> None:
        response = member.link.answer()
        must_be_0(response, "JoinGroup")
        (generation,) = GENERATION.unpack_from(response)
        if generation != self._generation:
            raise ValueError(f"{member.group}: generation {generation}, not {self._generation}")
        member.link.send(sync)

    def end(self) -> None:
        for each in self._members:
            must_be_0(each.link.answer(), "SyncGroup")
            each.generation = self._generation


def form(groups: Sequence[Sequence[Member]]) -> None:
    """Forms new groups at the same time."""
    for part in groups:
        for each in part:
            each.link.send(each.join_frame(b""))
    for part in groups:
        for each in part:
            each.take_id()
            each.generation = 0
    rebalances = [Rebalance(part) for part in groups]
    for step in (Rebalance.join, Rebalance.sync, Rebalance.end):
        for each in rebalances:
            step(each)
