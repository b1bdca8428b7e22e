"""The load test's own arithmetic, and that it finds what it is there to find.

Locust replaces Python's sockets where it is imported: here it never is, its runs are processes.
"""

from __future__ import annotations

import math
import socket
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from appliance.client.errors import BrokerUnavailable, LoginFailed, TlsFailed
from appliance.client.security_config import of_pairs
from appliance.protocol.codec import Pieces
from appliance.protocol.messages.delete_records import API as DELETE_RECORDS
from appliance.protocol.messages.delete_records import DeleteRecordsRequest
from appliance.record._producer_batch_builder import batch_head, encode_records
from appliance.testing import Login, RunningBroker, running_broker
from loadtest import broker, broker_metrics, payload, shape_curves, slo, tally
from loadtest.acknowledged_batches import NOWHERE, Batch, Ledger
from loadtest.connection import Connection
from loadtest.histogram import Histogram
from loadtest.payload import Filling
from loadtest.read_back import Findings, read_back
from loadtest.schedule import Schedule
from loadtest.tally import Tally

ROOT = Path(__file__).parents[2]
PLACE = ("t", 0)


def test_sockets_of_tests_are_pythons_own() -> None:
    assert socket.socket.__module__ == "socket"


# times


def test_a_histogram_is_right_within_a_per_cent_or_two() -> None:
    times = Histogram()
    for millisecond in range(1, 1001):
        times.put(millisecond / 1000)
    for part, wanted in ((0.5, 0.5), (0.99, 0.99), (0.999, 0.999), (1.0, 1.0)):
        assert wanted <= times.quantile(part) <= wanted * 1.02
    assert math.isnan(Histogram().quantile(0.5))


def test_what_workers_counted_adds_up() -> None:
    total = Tally()
    for seconds in (0.001, 0.1):
        worker = Tally()
        worker.done(tally.PRODUCE, seconds, 10, 2000)
        worker.ledger.put(PLACE, Batch(5, 7, 0, 10))
        total.add(worker.take())
        assert worker.take() == {"counts": {}, "times": {}, "acked": []}
    assert total.counts["PRODUCE records"] == 20
    assert total.times[tally.PRODUCE].total == 2
    assert (total.ledger.acked, len(list(total.ledger.batches(PLACE)))) == (20, 2)


def test_a_schedule_does_not_forgive_what_could_not_be_sent() -> None:
    schedule = Schedule(1000)
    first = schedule.take()
    while time.monotonic() < first + 0.05:
        time.sleep(0.01)
    assert schedule.wait_s() == 0
    assert schedule.take() == pytest.approx(first + 0.001)


@pytest.mark.parametrize(
    ("shape", "at", "part"),
    [
        ("ramp", 0, 0), ("ramp", 50, 0.5), ("ramp", 100, 1),
        ("spike", 4, 0.1), ("spike", 10, 1), ("spike", 12, 0.1), ("spike", 30, 1),
        ("soak", 5, 1), ("soak", 99, 1), ("soak", 1, 0.2),
        ("sawtooth", 10, 0.5), ("sawtooth", 19.9, 1), ("sawtooth", 30, 0.5),
    ],
)  # fmt: skip
def test_shapes_of_a_run_of_100_s_in_periods_of_20(shape: str, at: float, part: float) -> None:
    assert shape_curves.SHAPES[shape](at, 100, 20) == pytest.approx(part)


# goals


def measured(**times: float) -> slo.Measured:
    found = {}
    for kind, seconds in times.items():
        found[slo.KINDS[kind]] = Histogram()
        found[slo.KINDS[kind]].put(seconds)
    numbers = {"loss": 0, "errors": 5, "records/s": 100.0}
    return slo.Measured(found, numbers, 1000)


@pytest.mark.parametrize(
    ("goal", "is_met"),
    [
        ("p99=20ms", True),
        ("p99=9ms", False),  # end to end is slower
        ("produce.p99=9ms", True),
        ("e2e.max=15ms", True),
        ("join.p50=1s", False),  # nobody joined
        ("loss=0", True),
        ("duplicates=0", False),  # not read back
        ("errors=5", True),
        ("errors=0.4%", False),
        ("errors=0.5%", True),
        ("records/s=100", True),
        ("records/s=101", False),
    ],
)
def test_a_goal_is_met_or_not(goal: str, is_met: bool) -> None:
    (parsed,) = slo.parse(goal)
    assert slo.check(parsed, measured(produce=0.005, e2e=0.01)).is_met is is_met


@pytest.mark.parametrize("text", ["p99=20", "p101=1s", "los=0", "loss=few", "disk.p99=1s"])
def test_what_is_no_goal_is_said(text: str) -> None:
    with pytest.raises(slo.GoalInvalid):
        slo.parse(text)


def test_commits_of_an_interval_are_read_from_the_brokers_metrics() -> None:
    bucket = 'appliance_commit_seconds_bucket{le="%s"} %s\n'
    before = broker_metrics.parse(bucket % ("0.001", 10) + bucket % ("+Inf", 10) + "x_total 5\n")
    after = broker_metrics.parse(bucket % ("0.001", 11) + bucket % ("+Inf", 20) + "x_total 3\n")
    assert after.commit_quantile(before, 0.1) == 0.001
    assert after.commit_quantile(before, 0.5) == math.inf
    assert math.isnan(before.commit_quantile(before, 0.5))
    assert after.since(before, "x_total") == 3  # started again in between


# what was acknowledged, and what the log has


@pytest.fixture
def connection(appliance_broker: RunningBroker) -> Iterator[Connection]:
    with closing(broker.connect_to(appliance_broker.bootstrap)()) as made:
        broker.create_topic(made, "t", 1)
        yield made


class Sender:
    """One producer of batches of ten records, with a ledger."""

    def __init__(self, connection: Connection) -> None:
        self.connection, self.ledger = connection, Ledger()
        self.who, self.number = payload.somebody(), 0
        self.values = Filling(100).values

    def send(self, values: list[bytes | None] | None = None) -> Batch:
        number, self.number = self.number, self.number + 10
        values = values or self.values(self.who, number, 0, 10)
        encoded = encode_records(values, None, 0, 0, 1 << 20)
        pieces = Pieces((batch_head(encoded, encoded.data), encoded.data))
        return Batch(broker.produce(self.connection, PLACE, pieces, -1), self.who, number, 10)

    def acked(self, batch: Batch) -> None:
        self.ledger.put(PLACE, batch)


def found_by(appliance_broker: RunningBroker, sender: Sender) -> Findings:
    return read_back(broker.connect_to(appliance_broker.bootstrap), sender.ledger)


def test_all_that_was_acked_is_found(
    appliance_broker: RunningBroker, connection: Connection
) -> None:
    sender = Sender(connection)
    for _ in range(5):
        sender.acked(sender.send())
    found = found_by(appliance_broker, sender)
    assert (found.acked, found.read, found.lost, found.altered, found.duplicated) == (
        50,
        50,
        0,
        0,
        0,
    )


def test_deleted_records_are_lost_ones(
    appliance_broker: RunningBroker, connection: Connection
) -> None:
    sender = Sender(connection)
    for _ in range(3):
        sender.acked(sender.send())
    delete_records(connection, "t", 0, 7)
    found = found_by(appliance_broker, sender)
    assert (found.acked, found.lost, found.altered) == (30, 7, 0)
    assert found.examples[0] == "t 0 offset 0: lost"


def test_records_that_never_reached_the_log_are_lost(
    appliance_broker: RunningBroker, connection: Connection
) -> None:
    sender = Sender(connection)
    sender.acked(sender.send())
    sender.acked(Batch(10, sender.who, 10, 10))
    assert found_by(appliance_broker, sender).lost == 10


def test_another_record_at_an_acked_offset_is_a_loss(
    appliance_broker: RunningBroker, connection: Connection
) -> None:
    first, second = Sender(connection), Sender(connection)
    first.acked(first.send()._replace(who=second.who))
    assert found_by(appliance_broker, first).lost == 10


def test_a_changed_record_is_altered(
    appliance_broker: RunningBroker, connection: Connection
) -> None:
    sender = Sender(connection)
    values = sender.values(sender.who, 0, 0, 10)
    assert values[3] is not None
    values[3] = values[3][:-1] + bytes([values[3][-1] ^ 1])
    sender.acked(sender.send(values))
    found = found_by(appliance_broker, sender)
    assert (found.lost, found.altered) == (0, 1)


def test_a_batch_that_stands_twice_is_duplicated(
    appliance_broker: RunningBroker, connection: Connection
) -> None:
    sender = Sender(connection)
    sender.acked(sender.send())
    sender.send(sender.values(sender.who, 0, 0, 10))
    found = found_by(appliance_broker, sender)
    assert (found.lost, found.duplicated) == (0, 10)


def test_an_unknown_batch_is_never_an_acked_one(
    appliance_broker: RunningBroker, connection: Connection
) -> None:
    sender = Sender(connection)
    sender.acked(sender.send())
    sender.acked(sender.send()._replace(base_offset=NOWHERE))
    sender.acked(Batch(NOWHERE, sender.who, 20, 10))
    found = found_by(appliance_broker, sender)
    assert (found.acked, found.lost, found.unknown, found.unknown_found) == (10, 0, 20, 10)


def delete_records(connection: Connection, topic: str, partition: int, offset: int) -> None:
    row = DeleteRecordsRequest.DeleteRecordsPartition(partition, offset)
    rows = [DeleteRecordsRequest.DeleteRecordsTopic(topic, [row])]
    asked = DeleteRecordsRequest(topics=rows, timeout_ms=5000)
    (part,) = connection.ask(DELETE_RECORDS, asked).topics[0].partitions
    assert part.error_code == 0


# Logins


LOAD = Login("load", "correct horse battery")


def security(broker: RunningBroker, file: Path, password: str = LOAD.password) -> list[str]:
    file.write_text(password)
    return ["security.protocol=SASL_SSL", f"ssl.ca.location={broker.ca_file}",
            f"sasl.username={LOAD.user}", f"sasl.password.file={file}"]  # fmt: skip


def test_a_connection_logs_in_over_tls_and_renews_its_login(tmp_path: Path) -> None:
    settings = {"connections.max.reauth.ms": "6000"}  # it is renewed in the last half second
    with running_broker(tmp_path / "data", settings, logins=[LOAD], tls=True) as running:
        given = of_pairs(security(running, tmp_path / "password"))
        with closing(broker.connect_to(running.bootstrap, security=given)()) as made:
            broker.create_topic(made, "t", 1)
            port, first = made._socket.getsockname(), made._login_due
            deadline = time.monotonic() + 20
            while made._login_due == first:
                assert broker.partitions_of(made, "t") == 1
                assert time.monotonic() < deadline
                time.sleep(0.005)
            assert made._socket.getsockname() == port
            sender = Sender(made)
            sender.acked(sender.send())
        connect = broker.connect_to(running.bootstrap, security=given)
        assert read_back(connect, sender.ledger).read == 10


def test_what_keeps_a_connection_out_is_said(tmp_path: Path) -> None:
    with running_broker(tmp_path / "data", logins=[LOAD], tls=True) as running:
        wrong = security(running, tmp_path / "password", "not its own one")
        with pytest.raises(LoginFailed, match="login of user 'load' by SCRAM-SHA-512 failed"):
            broker.connect_to(running.bootstrap, security=of_pairs(wrong))()
        right = security(running, tmp_path / "password")
        other = running.bootstrap.replace("127.0.0.1", "127.1")
        with pytest.raises(TlsFailed, match=r"not for '127\.1'"):
            broker.connect_to(other, security=of_pairs(right))()
        with pytest.raises(BrokerUnavailable):
            broker.connect_to(running.bootstrap)()
