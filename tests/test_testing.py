"""The plugin that gives other people's tests a broker."""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Mapping
from pathlib import Path

import confluent_kafka
import pytest

from appliance.config import SettingInvalid
from appliance.errors import ApplianceError
from appliance.protocol import ErrorCode
from appliance.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResponse,
)
from appliance.protocol.messages.metadata import MetadataRequest, MetadataResponse
from appliance.testing import Login, RunningBroker, running_broker
from tests.support.logs import batch, until
from tests.support.open_files import open_files
from tests.support.wire_client import WireClient, frame_of

ROOT = Path(__file__).parents[1]


def client(broker: RunningBroker) -> WireClient:
    host, port = broker.bootstrap.split(":")
    return WireClient((host, int(port)))


def metadata(connection: WireClient, *names: str) -> MetadataResponse:
    topics = [MetadataRequest.MetadataRequestTopic(name=each) for each in names]
    connection.send(frame_of(MetadataRequest(topics=topics or None), 3, 9))
    answer: MetadataResponse = connection.answer(MetadataResponse, 3, 9)
    return answer


def test_a_test_gets_a_broker_that_keeps_records(appliance_broker: RunningBroker) -> None:
    with client(appliance_broker) as connection:
        (row,) = metadata(connection, "t").topics
        assert (row.error_code, len(row.partitions)) == (0, 1)
        (part,) = connection.produce(batch("a", "b"), acks=-1)
        assert (part.error_code, part.base_offset) == (0, 0)
        assert connection.fetch_one(0).high_watermark == 2


def test_a_broker_that_has_stopped_keeps_no_descriptor(tmp_path: Path) -> None:
    """A test run that starts hundreds must not gather them: what calls select() ends at 1,024."""

    def run_one(name: str) -> int:
        with running_broker(tmp_path / name) as broker:
            for path in ("livez", "healthz", "metrics"):
                urllib.request.urlopen(f"http://{broker.admin}/{path}").read()
        gc.collect()
        return len([each for each in open_files() if not is_elsewhere(each)])

    def is_elsewhere(name: str) -> bool:
        """A file of another broker in this process, as the one that a session has: it may open
        its history meanwhile."""
        return name.startswith("/") and Path(name).is_file() and str(tmp_path) not in name

    first = run_one("first")  # libraries open their own at the first use
    # one that was kept had nine; a thread of a test before this one may open one meanwhile
    assert max(run_one(name) for name in ("second", "third", "fourth")) < first + 5


def test_configs_tell_where_it_listens_in_fact(appliance_broker: RunningBroker) -> None:
    names = ["listeners", "advertised.listeners", "admin.address"]
    asked = DescribeConfigsRequest([DescribeConfigsRequest.DescribeConfigsResource(4, "1", names)])
    with client(appliance_broker) as connection:
        connection.send(frame_of(asked, 32, 4))
        (answer,) = connection.answer(DescribeConfigsResponse, 32, 4).results
    kafka, admin = appliance_broker.bootstrap, appliance_broker.admin
    assert {each.name: each.value for each in answer.configs} == {
        "listeners": f"PLAINTEXT://{kafka}", "advertised.listeners": f"PLAINTEXT://{kafka}",
        "admin.address": admin.removeprefix("http://")}


def test_the_next_test_gets_a_new_one(appliance_broker: RunningBroker) -> None:
    with client(appliance_broker) as connection:
        answer = metadata(connection)
    assert answer.topics == []
    (broker,) = answer.brokers
    assert f"{broker.host}:{broker.port}" == appliance_broker.bootstrap


@pytest.mark.parametrize("turn", [1, 2])
def test_the_session_has_one_of_its_own(
    appliance_session_broker: RunningBroker, turn: int
) -> None:
    with client(appliance_session_broker) as connection:
        assert len(metadata(connection).topics) == turn - 1
        metadata(connection, f"t{turn}")


def test_health_is_asked_at_the_admin_address(appliance_broker: RunningBroker) -> None:
    with urllib.request.urlopen(f"http://{appliance_broker.admin}/healthz") as answer:
        assert json.load(answer)["status"] == "ok"


@pytest.mark.alone
def test_it_is_there_before_a_person_notices(tmp_path: Path) -> None:
    with running_broker(tmp_path / "warm"):
        pass  # the first one pays for the imports
    spans = []
    for each in range(5):
        begin = time.monotonic()
        with running_broker(tmp_path / str(each)):
            spans.append(time.monotonic() - begin)
    assert min(spans) < 0.2, spans


def test_records_survive_a_stop(tmp_path: Path) -> None:
    with running_broker(tmp_path) as broker, client(broker) as connection:
        metadata(connection, "t")
        connection.produce(batch("a"), acks=-1)
    with running_broker(tmp_path) as broker, client(broker) as connection:
        assert [each.name for each in metadata(connection).topics] == ["t"]
        assert connection.fetch_one(0).high_watermark == 1


def test_settings_are_taken(tmp_path: Path) -> None:
    settings = {"num.partitions": "4", "auto.create.topics.enable": "false"}
    with running_broker(tmp_path, settings) as broker, client(broker) as connection:
        (row,) = metadata(connection, "t").topics
        assert row.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_two_can_run_side_by_side(tmp_path: Path) -> None:
    with running_broker(tmp_path / "a") as one, running_broker(tmp_path / "b") as two:
        assert one.bootstrap != two.bootstrap
        with client(one) as first, client(two) as second:
            metadata(first, "t")
            assert metadata(second).topics == []


def test_a_start_that_fails_says_why(tmp_path: Path) -> None:
    with pytest.raises(SettingInvalid, match=r"no\.such"):
        running_broker(tmp_path, {"no.such": "1"}).__enter__()
    with running_broker(tmp_path / "a"), pytest.raises(ApplianceError, match="another"):
        running_broker(tmp_path / "a").__enter__()


THREADS_LEFT = """
import sys, threading
from pathlib import Path
from appliance.testing import running_broker
from tests.support.logs import until
from tests.test_testing import client, metadata
for each in range(3):
    with running_broker(Path(sys.argv[1]) / str(each)) as broker, client(broker) as connection:
        metadata(connection, "t")
until(lambda: threading.active_count() == 1)  # the last may still be on its way out
"""


def test_no_thread_is_left(tmp_path: Path) -> None:
    """In a process without the session's broker, which makes threads when it wants to."""
    done = subprocess.run([sys.executable, "-c", THREADS_LEFT, tmp_path], capture_output=True,
                          text=True, cwd=ROOT)  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_nothing_is_written_on_the_tests_output(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with running_broker(tmp_path) as broker, client(broker) as connection:
        metadata(connection, "t")
    assert capfd.readouterr() == ("", "")


OTHERS = """
import urllib.request
import pytest
from appliance.testing import Login

@pytest.fixture(scope="session")
def appliance_settings():
    return {"num.partitions": "3"}

def test_one(appliance_broker):
    assert appliance_broker.bootstrap.startswith("127.0.0.1:")

@pytest.fixture(scope="session")
def appliance_logins():
    return [Login("ann", "correct horse battery")]

def test_three(appliance_broker):
    settings = appliance_broker.client_settings("ann")
    assert settings["security.protocol"] == "SASL_PLAINTEXT"
    assert list(appliance_broker.addresses) == ["SASL_PLAINTEXT"]

def test_two(appliance_session_broker):
    with urllib.request.urlopen(f"http://{appliance_session_broker.admin}/livez") as answer:
        assert answer.status == 200
"""


def test_somebody_elses_tests_can_use_it(tmp_path: Path) -> None:
    (tmp_path / "test_theirs.py").write_text(OTHERS)
    options = ["-q", "-W", "error", "-p", "appliance.testing", "--basetemp", tmp_path / "base"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, tmp_path / "test_theirs.py"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert (done.returncode, "3 passed" in done.stdout) == (0, True), done.stdout + done.stderr


def test_no_broker_is_loaded_by_who_wants_none() -> None:
    script = "import sys, appliance.testing; print('appliance.server' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT)
    assert done.stdout == "False\n", done.stderr


def test_a_consumer_reads_in_a_group_at_once(appliance_broker: RunningBroker) -> None:
    configs = {"bootstrap.servers": appliance_broker.bootstrap}
    producer = confluent_kafka.Producer(configs)
    producer.produce("t", b"v")
    assert producer.flush(20) == 0
    begin = time.monotonic()
    consumer = confluent_kafka.Consumer(
        {**configs, "group.id": "g", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe(["t"])
    message = consumer.poll(20)
    assert message is not None
    assert message.value() == b"v"
    consumer.commit(asynchronous=False)
    assert time.monotonic() - begin < 10
    consumer.close()


ANN = Login("ann", "correct horse battery")
BOB = Login("bob", "battery horse correct", role="none")


def sent(settings: Mapping[str, str]) -> list[int | None]:
    """The errors of a record."""
    told: list[int | None] = []
    producer = confluent_kafka.Producer({**settings, "log_level": 0})
    producer.produce(
        "t", b"v", on_delivery=lambda error, _: told.append(error.code() if error else None)
    )
    producer.poll(0)
    deadline = time.monotonic() + 20
    while not told and time.monotonic() < deadline:
        producer.poll(0.1)
    producer.purge()
    return told


@pytest.mark.parametrize("tls", [True, False])
def test_who_has_a_login_gets_in_and_may_what_its_role_says(tmp_path: Path, tls: bool) -> None:
    data = tmp_path / "data"
    for _ in range(2):  # users and certificates are there at the next start
        with running_broker(data, logins=[ANN, BOB], tls=tls) as broker:
            assert sent(broker.client_settings("ann")) == [None]
            refused = confluent_kafka.KafkaError.TOPIC_AUTHORIZATION_FAILED
            assert sent(broker.client_settings("bob")) == [refused]


def test_who_says_a_wrong_password_does_not_get_in(tmp_path: Path) -> None:
    with running_broker(tmp_path / "data", logins=[ANN]) as broker:
        why: list[int] = []
        wrong = {**broker.client_settings("ann"), "sasl.password": BOB.password, "log_level": 0,
                 "error_cb": lambda error: why.append(error.code())}  # fmt: skip
        producer = confluent_kafka.Producer(wrong)
        until(lambda: producer.poll(0.1) or why)
        assert confluent_kafka.KafkaError._AUTHENTICATION in why


def test_tls_needs_no_login(tmp_path: Path) -> None:
    with running_broker(tmp_path / "data", tls=True) as broker:
        assert sent(broker.client_settings()) == [None]
