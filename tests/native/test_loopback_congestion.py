"""Connections within the machine are not paced."""

from __future__ import annotations

import os
import socket
import stat
from contextlib import closing
from pathlib import Path

import pytest

from appliance.admin.bulk_read import PREFIX
from appliance.client.config import ClientConfig
from appliance.client.connection import Address, Connection
from appliance.native.loopback_congestion import choose_congestion
from appliance.testing import RunningBroker
from tests.support.logs import until
from tests.support.wire_client import WireClient

SYSTEMS = Path("/proc/sys/net/ipv4/tcp_congestion_control").read_text().strip()
RENO = "reno"


def congestion_of(connection: socket.socket) -> str:
    name = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16)
    return name.rstrip(b"\0").decode()


def other_end(of: socket.socket) -> str:
    """The congestion control of the broker's end: it is a descriptor of this process."""
    for name in os.listdir("/proc/self/fd"):
        try:
            if not stat.S_ISSOCK(os.stat(int(name)).st_mode):
                continue
            copy = os.dup(int(name))
        except OSError:
            continue  # gone by now
        with socket.socket(fileno=copy) as connection:
            try:
                if connection.getpeername() == of.getsockname():
                    return congestion_of(connection)
            except OSError:
                continue
    raise AssertionError("the broker has no such connection")


def address_of(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    return host, int(port)


@pytest.mark.parametrize(("source", "wanted"), [("127.0.0.1", RENO), ("127.0.0.2", SYSTEMS)])
def test_the_broker_looks_where_a_client_is(
    appliance_broker: RunningBroker, source: str, wanted: str
) -> None:
    with WireClient(address_of(appliance_broker.bootstrap), source=source) as client:
        client.create_topic("t")
        assert other_end(client.socket) == wanted


def test_the_client_looks_where_the_broker_is(appliance_broker: RunningBroker) -> None:
    address = Address.parse(appliance_broker.bootstrap)
    with Connection(address, ClientConfig(broker_list="unused:1")) as made:
        assert congestion_of(made._socket) == RENO


def test_a_connection_that_is_gone_is_left_alone() -> None:
    with socket.socket() as never_connected:
        choose_congestion(never_connected)
        assert congestion_of(never_connected) == SYSTEMS


def test_a_bulk_read_does(appliance_broker: RunningBroker) -> None:
    with WireClient(address_of(appliance_broker.bootstrap)) as client:
        client.create_topic("t")
    with closing(socket.create_connection(address_of(appliance_broker.export))) as connection:
        path = f"{PREFIX}/topics/t/partitions/0/batches"
        head = f"GET {path} HTTP/1.1\r\nHost: {appliance_broker.export}\r\n\r\n"
        connection.sendall(head.encode())
        assert connection.recv(12) == b"HTTP/1.1 200"
        until(lambda: other_end(connection) == RENO)
