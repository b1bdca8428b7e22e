"""Limits of connections by listener: at a time and a second. What is beyond them waits."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from appliance.config import LogConfig, NetworkConfig
from appliance.data_dir.log_dir import LogDir
from appliance.network._data_plane import DataPlane
from tests.support import own_threads
from tests.support.logs import until
from tests.support.wire_client import TOPIC_ID, WireClient

FIRST, SECOND = 0, 1  # listeners
PATIENCE_S = 20.0  # of who is answered at once, on a machine on which much else runs
WAITS_S = 0.3  # far longer than an answer takes on a machine with time for it
TICK_S = 1 / os.sysconf("SC_CLK_TCK")


class Site:
    """Topic `t` behind a data plane with two listeners."""

    def __init__(self, path: Path) -> None:
        self.log_dir = LogDir.open(path)
        log = self.log_dir.create("t", 0, LogConfig())
        self.plane = DataPlane(NetworkConfig())
        # Nobody looks here for a broker that is gone: see `support/data_plane.py`.
        opened = [socket.create_server(("127.0.0.2", 0), backlog=1024) for _ in range(2)]
        self.addresses = [each.getsockname() for each in opened]
        for each in opened:
            self.plane.listen(each)
        self.plane.put_topic("t", TOPIC_ID.bytes, [log])
        self.plane.start()
        self.clients: list[WireClient] = []

    def connect(self, listener: int = FIRST) -> WireClient:
        """And asks something."""
        client = WireClient(self.addresses[listener], PATIENCE_S)
        self.clients.append(client)
        client.send_fetch(0)
        return client

    def served(self, listener: int = FIRST) -> WireClient:
        client = self.connect(listener)
        client.receive()
        return client

    def counts(self, listener: int = FIRST) -> Any:
        return self.plane.listener_counters()[listener]

    def close(self) -> None:
        for each in self.clients:
            each.socket.close()
        self.plane.stop(1000)
        self.log_dir.close()


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path)
    yield made
    made.close()


def assert_waits(client: WireClient) -> None:
    client.socket.settimeout(WAITS_S)
    with pytest.raises(TimeoutError):
        client.receive()
    client.socket.settimeout(PATIENCE_S)


def processor_s(name: str) -> float:
    """Of the threads with this name."""
    total = 0.0
    for task in own_threads.named(name):
        fields = (task / "stat").read_text().rpartition(")")[2].split()
        total += (int(fields[11]) + int(fields[12])) * TICK_S
    return total


def test_a_connection_beyond_the_number_waits_until_one_ends(site: Site) -> None:
    site.plane.limit_connections(2, 0, FIRST)
    first, _ = site.served(), site.served()
    waiting = site.connect()
    assert_waits(waiting)
    until(lambda: site.counts().waits_for == "connections")
    assert site.counts().connections == 2
    site.served(SECOND)
    first.socket.close()
    waiting.receive()
    found = site.counts()
    assert (found.connections, found.accepted, found.throttled["connections"]) == (2, 3, 1)
    assert (found.waits_for, site.counts(SECOND).throttled["connections"]) == ("", 0)


def test_a_number_for_all_holds_each_listener_back(site: Site) -> None:
    site.plane.limit_connections(2, 0)
    first, _ = site.served(FIRST), site.served(SECOND)
    waiting = [site.connect(FIRST), site.connect(SECOND)]
    for each in waiting:
        assert_waits(each)
    first.socket.close()
    until(lambda: site.plane.counters()["connections_accepted"] == 3)
    site.plane.limit_connections(3, 0)
    for each in waiting:
        each.receive()


def test_listeners_take_turns_where_a_number_for_all_holds_them_back(site: Site) -> None:
    site.plane.limit_connections(1, 0)
    holder = site.served(FIRST)
    crowd = [site.connect(FIRST) for _ in range(3)]
    other = site.connect(SECOND)
    assert_waits(other)
    holder.socket.close()
    other.receive()
    other.socket.close()
    crowd[0].receive()


def test_a_higher_number_and_none_let_in_who_waits(site: Site) -> None:
    site.plane.limit_connections(1, 0, FIRST)
    site.served()
    waiting = [site.connect() for _ in range(3)]
    assert_waits(waiting[0])
    site.plane.limit_connections(2, 0, FIRST)
    waiting[0].receive()
    assert_waits(waiting[1])
    site.plane.limit_connections(0, 0, FIRST)
    for each in waiting[1:]:
        each.receive()


def test_a_lower_number_ends_no_connection(site: Site) -> None:
    clients = [site.served() for _ in range(3)]
    site.plane.limit_connections(1, 0, FIRST)
    waiting = site.connect()
    for each in clients:
        each.fetch(0)
    for each in clients:
        assert_waits(waiting)
        each.socket.close()
    waiting.receive()


@pytest.mark.alone
@pytest.mark.parametrize("of", ["the listener", "all"])
def test_connections_beyond_a_rate_come_in_their_turn(site: Site, of: str) -> None:
    rate, more = 5, 7
    at_once = rate + 1  # of a window of one second
    site.plane.limit_connections(0, rate, FIRST if of == "the listener" else -1)
    begun = time.monotonic()
    clients = [site.connect() for _ in range(at_once + more)]
    clients[at_once - 1].receive()
    if of == "the listener":
        site.served(SECOND)
        assert site.counts().waits_for == "rate", "the other was not held back"
    clients[-1].receive()
    took = time.monotonic() - begun
    assert (more - 1) / rate < took < more / rate + 2
    found = site.counts()
    assert found.accepted == at_once + more
    assert 1 <= found.throttled["rate"] <= more + 1


def test_what_waits_costs_no_processor_time(site: Site) -> None:
    site.plane.limit_connections(1, 0, FIRST)
    site.plane.limit_connections(0, 1, SECOND)
    site.served(FIRST), site.served(SECOND), site.served(SECOND)
    waiting = [site.connect(FIRST), *(site.connect(SECOND) for _ in range(5))]
    begun = processor_s("acceptor")
    assert_waits(waiting[0])
    assert_waits(waiting[-1])
    assert processor_s("acceptor") - begun <= 2 * TICK_S


def test_a_refused_connection_takes_nobodys_turn(site: Site) -> None:
    site.served()
    site.plane.limit_connections_per_ip(1)
    site.plane.limit_connections(0, 2, FIRST)
    for _ in range(200):  # they would take the turns of more than a minute
        with pytest.raises((EOFError, ConnectionError)):
            site.served()
    site.plane.limit_connections_per_ip(9)
    site.served(), site.served()


def test_a_number_is_never_exceeded_while_clients_come_and_go(site: Site) -> None:
    most = 3
    site.plane.limit_connections(most, 0, FIRST)
    faults: list[Exception] = []

    def come_and_go() -> None:
        try:
            for _ in range(20):
                with WireClient(site.addresses[FIRST], 20) as client:
                    client.fetch(0)
        except (OSError, EOFError) as error:
            faults.append(error)

    threads = [threading.Thread(target=come_and_go) for _ in range(10)]
    for each in threads:
        each.start()
    seen = [0]
    while any(each.is_alive() for each in threads):
        seen.append(site.counts().connections)
        time.sleep(0.001)
    assert faults == []
    assert max(seen) <= most
    assert site.counts().accepted == 200
    until(lambda: site.counts().connections == 0)


def test_a_stop_does_not_wait_for_who_waits(site: Site) -> None:
    site.plane.limit_connections(1, 1, FIRST)
    site.served()
    site.connect()
    begun = time.monotonic()
    site.plane.stop(0)
    assert time.monotonic() - begun < PATIENCE_S


def test_a_listener_that_cannot_be_is_refused(site: Site) -> None:
    for number in (-2, 64):
        with pytest.raises(ValueError, match="wanted 0 to 63"):
            site.plane.limit_connections(1, 1, number)
