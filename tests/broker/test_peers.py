"""Requests from one broker to another: a real one over a socket, and ones that go wrong."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from appliance import config
from appliance.broker.inter_broker_security import InterBrokerSecurity
from appliance.broker.peers import Peers, PeerUnreachable
from appliance.config import Address
from appliance.protocol import ErrorCode
from appliance.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from appliance.protocol.messages.metadata import MetadataRequest
from appliance.protocol.messages.write_txn_markers import WriteTxnMarkersRequest
from appliance.testing import Login, RunningBroker, running_broker
from tests.support.certificates import Authority

TIMEOUT_S = 10.0
PASSWORD = "correct horse battery"
Marker = WriteTxnMarkersRequest.WritableTxnMarker
Topic = WriteTxnMarkersRequest.WritableTxnMarkerTopic


@pytest.fixture
def address(tmp_path: Path) -> Iterator[Address]:
    with running_broker(tmp_path) as broker:
        yield Address.parse(broker.bootstrap)


def asked(
    where: Address | None,
    job: Callable[[Peers], Awaitable[None]],
    security: InterBrokerSecurity | None = None,
) -> None:
    async def run() -> None:
        peers = Peers(lambda node: where if node == 2 else None, "broker-1", security)
        try:
            await job(peers)
        finally:
            await peers.close()

    asyncio.run(run())


def test_answers_come_to_who_asked(address: Address) -> None:
    async def job(peers: Peers) -> None:
        marker = Marker(7, 0, True, [Topic("nowhere", [0])], 0)
        found = await asyncio.gather(
            peers.ask(2, ApiVersionsRequest("appliance", "1"), 3, TIMEOUT_S),
            peers.ask(2, MetadataRequest(topics=[]), 12, TIMEOUT_S),
            peers.ask(2, WriteTxnMarkersRequest([marker]), 1, TIMEOUT_S),
        )
        assert isinstance(found[0], ApiVersionsResponse)
        (node,) = found[1].brokers
        assert node.port == address.port
        ((row,),) = [each.partitions for each in found[2].markers[0].topics]
        assert row.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    asked(address, job)


def test_a_broker_that_is_not_there_is_named() -> None:
    async def job(peers: Peers) -> None:
        with pytest.raises(PeerUnreachable, match="broker 3 is not registered"):
            await peers.ask(3, MetadataRequest(), 12, TIMEOUT_S)
        with pytest.raises(PeerUnreachable, match=r"broker 2 at .*: .*Connect"):
            await peers.ask(2, MetadataRequest(), 12, TIMEOUT_S)

    asked(Address("127.0.0.1", 1), job)


async def serve(
    handle: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]],
    job: Callable[[Peers], Awaitable[None]],
) -> None:
    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    peers = Peers(lambda node: Address("127.0.0.1", port), "broker-1")
    try:
        await job(peers)
    finally:
        await peers.close()
        server.close()


def test_one_that_does_not_answer_is_given_up_with_all_that_wait_there() -> None:
    begun = asyncio.Semaphore(0)

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        begun.release()
        await reader.read()
        writer.close()

    async def job(peers: Peers) -> None:
        late = asyncio.ensure_future(peers.ask(2, MetadataRequest(), 12, TIMEOUT_S))
        with pytest.raises(PeerUnreachable, match=r"no answer within 0\.1 s"):
            await peers.ask(2, MetadataRequest(), 12, 0.1)
        with pytest.raises(PeerUnreachable, match=r"Metadata: no answer within 0\.1 s"):
            await late
        with pytest.raises(PeerUnreachable):
            await peers.ask(2, MetadataRequest(), 12, 0.1)
        for _ in range(2):  # who was given up may not have been let in yet
            await asyncio.wait_for(begun.acquire(), TIMEOUT_S)
        assert begun.locked(), "there was no third"

    asyncio.run(serve(handle, job))


@pytest.mark.parametrize("answer", [b"", b"\0\0\0\4\0\0\0\x63", b"\xff\xff\xff\xff"])
def test_what_is_no_answer_is_told(answer: bytes) -> None:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(answer)
        writer.close()

    async def job(peers: Peers) -> None:
        with pytest.raises(PeerUnreachable, match="broker 2 at "):
            await peers.ask(2, MetadataRequest(), 12, TIMEOUT_S)

    asyncio.run(serve(handle, job))


# Over TLS, with a login


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    folder = tmp_path_factory.mktemp("secured")
    settings = {"connection.failed.authentication.delay.ms": "1"}
    with running_broker(
        folder / "data", settings, logins=[Login("broker", PASSWORD)], tls=True
    ) as broker:
        yield broker


def security(broker: RunningBroker, folder: Path, **given: str) -> InterBrokerSecurity:
    password = folder / "password"
    password.touch(0o600)
    password.write_text(given.get("password", PASSWORD))
    return InterBrokerSecurity(config.load(pairs=[
        f"data.dir={folder}/data", "listeners=SASL_SSL://127.0.0.1:0",
        f"ssl.keystore.location={Authority(folder / 'own').keystore()}",
        f"ssl.truststore.location={given.get('trust', broker.ca_file)}",
        "inter.broker.user=broker", f"inter.broker.password.file={password}",
    ]))  # fmt: skip


def test_requests_go_over_tls_after_a_login(secured: RunningBroker, tmp_path: Path) -> None:
    async def job(peers: Peers) -> None:
        for _ in range(2):
            answer = await peers.ask(2, MetadataRequest(topics=[]), 12, TIMEOUT_S)
            assert [each.node_id for each in answer.brokers] == [1]

    asked(Address.parse(secured.bootstrap), job, security(secured, tmp_path))


def test_a_wrong_password_or_authority_is_said(secured: RunningBroker, tmp_path: Path) -> None:
    async def is_refused(peers: Peers, why: str) -> None:
        with pytest.raises(PeerUnreachable, match=why):
            await peers.ask(2, MetadataRequest(topics=[]), 12, TIMEOUT_S)

    where, other = Address.parse(secured.bootstrap), Authority(tmp_path / "other", "Other")
    asked(where, lambda peers: is_refused(peers, "Authentication failed"),
          security(secured, tmp_path, password="something else"))  # fmt: skip
    asked(where, lambda peers: is_refused(peers, "CERTIFICATE_VERIFY_FAILED"),
          security(secured, tmp_path, trust=str(other.trust)))  # fmt: skip
