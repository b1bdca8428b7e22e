"""Errors for a producer whose transaction was aborted after its timeout, and for an EndTxn without
a transaction: our broker's and a real Kafka's, in the versions that differ.

The error decides whether a client continues, aborts, or gives up.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from appliance.protocol import ErrorCode
from appliance.protocol.messages.describe_transactions import DescribeTransactionsRequest
from appliance.protocol.messages.find_coordinator import FindCoordinatorRequest
from tests.interop.kafka_broker import SETTINGS, KafkaBroker
from tests.support.logs import until
from tests.support.release import gate_has
from tests.support.remote_control import RemoteControl
from tests.support.txn_client import TxnClient
from tests.support.warm_serving import WarmServing

TIMEOUT_MS = 3000  # of transactions that time out: each test step takes much less
DEADLINE_S = 30
LOOKS = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "100"}
GROUP, TRANSACTION = 0, 1
# Kafka's errors while it creates internal topics, or has not written its last markers yet.
LATER = {
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
}


def settled(act: Callable[[], int]) -> int:
    """Waits until the result is known."""
    end = time.monotonic() + DEADLINE_S
    while (found := act()) in LATER:
        assert time.monotonic() < end, ErrorCode(found).name
        time.sleep(0.05)
    return found


def begun(control: RemoteControl, name: str, is_v2: bool, timeout_ms: int) -> TxnClient:
    one = TxnClient(control, name, is_v2=is_v2)
    assert settled(lambda: one.init(timeout_ms=timeout_ms)) == 0
    if not is_v2:
        assert settled(lambda: one.add(("t", 0))[0]) == 0
    assert settled(lambda: one.write("a")) == 0
    return one


def state(control: RemoteControl, name: str) -> str:
    (found,) = control.ask(DescribeTransactionsRequest([name]), 0).transaction_states
    return str(found.transaction_state)


def goes_on(one: TxnClient) -> str:
    """Whether the producer may write and commit after a new InitProducerId."""
    told = one.init(is_known=True)
    if told:
        return ErrorCode(told).name
    if not one.is_v2:
        assert settled(lambda: one.add(("t", 0))[0]) == 0
    assert settled(lambda: one.write("b")) == 0
    assert one.end() == 0
    return f"commits with epoch {one.epoch - one.is_v2}"


def goes_on_after_another(one: TxnClient) -> str:
    other = TxnClient(one.control, one.name, is_v2=one.is_v2)
    assert settled(other.init) == 0
    return goes_on(one)


def asks_twice(one: TxnClient) -> str:
    own = one.id, one.epoch
    epochs = []
    for _ in range(2):
        one.id, one.epoch = own
        assert one.init(is_known=True) == 0
        epochs.append(one.epoch)
    return f"epochs {epochs}"


def code(act: Callable[[TxnClient], int]) -> Callable[[TxnClient], str]:
    return lambda one: ErrorCode(settled(lambda: act(one))).name


Act = Callable[[TxnClient], str]
EACH: dict[str, tuple[Act, str]] = {  # of TV1 and TV2
    "write where it wrote": (code(lambda one: one.write("b")), "INVALID_PRODUCER_EPOCH"),
    "write elsewhere": (code(lambda one: one.write("b", partition=1)), "INVALID_PRODUCER_EPOCH"),
    "offsets": (code(lambda one: one.commit_offset(1)), "INVALID_PRODUCER_EPOCH"),
    "a new epoch": (goes_on, "commits with epoch 1"),
    "a new epoch twice": (asks_twice, "epochs [1, 1]"),
    "a new epoch behind another": (goes_on_after_another, "PRODUCER_FENCED"),
}
OLD: dict[str, tuple[Act, str]] = {  # of TV1
    "partitions, old": (code(lambda one: one.add(("t", 1), version=1)[0]),
                        "INVALID_PRODUCER_EPOCH"),
    "partitions": (code(lambda one: one.add(("t", 1))[0]), "PRODUCER_FENCED"),
    "write, old": (code(lambda one: one.write("b", version=9)), "INVALID_PRODUCER_EPOCH"),
    "a group": (code(lambda one: one.add_group()), "PRODUCER_FENCED"),
    "commit, old": (code(lambda one: one.end(version=1)), "INVALID_PRODUCER_EPOCH"),
    "abort, old": (code(lambda one: one.end(False, version=1)), "INVALID_PRODUCER_EPOCH"),
    "commit": (code(lambda one: one.end()), "PRODUCER_FENCED"),
    "abort": (code(lambda one: one.end(False)), "PRODUCER_FENCED"),
}  # fmt: skip
NEW: dict[str, tuple[Act, str]] = {  # TV2: a second abort succeeds
    "commit": (code(lambda one: one.end()), "INVALID_TXN_STATE"),
    "abort": (code(lambda one: one.end(False)), "NONE"),
}
SILENT = {
    **{(f"TV1 {name}", False): each for name, each in {**EACH, **OLD}.items()},
    **{(f"TV2 {name}", True): each for name, each in {**EACH, **NEW}.items()},
}
NOTHING = {  # without records: TV2, a commit after another commit
    (False, False, False): "INVALID_TXN_STATE",
    (False, False, True): "INVALID_TXN_STATE",
    (False, True, False): "INVALID_TXN_STATE",
    (False, True, True): "NONE",  # TV1 takes it for a resend of the last one
    (True, False, False): "NONE",
    (True, False, True): "NONE",
    (True, True, False): "INVALID_TXN_STATE",
    (True, True, True): "INVALID_TXN_STATE",
}


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RemoteControl]:
    serving = WarmServing(tmp_path_factory.mktemp("ours"), **LOOKS)
    control = prepared(serving.kafka)
    yield control
    control.close()
    serving.stop()


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RemoteControl]:
    with KafkaBroker(tmp_path_factory.mktemp("kafka"), {**SETTINGS, **LOOKS}) as broker:
        host, _, port = broker.address.rpartition(":")
        control = prepared((host, int(port)))
        yield control
        control.close()


@pytest.fixture(params=gate_has(["ours"], "whether Kafka answers so still", ["ours", "kafka"]))
def control(request: pytest.FixtureRequest) -> RemoteControl:
    made: RemoteControl = request.getfixturevalue(request.param)
    return made


def prepared(address: tuple[str, int]) -> RemoteControl:
    control = RemoteControl(address)
    control.wire.create_topic("t", 2)
    for kind in (GROUP, TRANSACTION):
        settled(lambda kind=kind: control.ask(FindCoordinatorRequest("g", kind), 3).error_code)
    return control


def test_of_a_silent_transaction(control: RemoteControl) -> None:
    producers = [begun(control, name, is_v2, TIMEOUT_MS) for name, is_v2 in SILENT]
    for each in producers:
        until(lambda each=each: state(control, each.name) == "CompleteAbort", DEADLINE_S)
    wanted = {name: told for (name, _), (_, told) in SILENT.items()}
    acts = [act for act, _ in SILENT.values()]
    found = {one.name: act(one) for one, act in zip(producers, acts, strict=True)}
    assert found == wanted


def test_of_an_end_of_nothing(control: RemoteControl) -> None:
    found = {}
    for number, (is_v2, is_commit, is_second) in enumerate(NOTHING):
        name = f"nothing {number}"
        if is_second:
            one = begun(control, name, is_v2, 60_000)
            assert one.end() == 0
            until(lambda name=name: state(control, name) == "CompleteCommit", DEADLINE_S)
        else:
            one = TxnClient(control, name, is_v2=is_v2)
            assert settled(one.init) == 0
        told: Any = settled(lambda one=one, is_commit=is_commit: one.end(is_commit))
        found[is_v2, is_commit, is_second] = ErrorCode(told).name
    assert found == NOTHING


def test_who_asks_for_an_epoch_in_its_transaction_gets_it_once_that_is_aborted(
    control: RemoteControl,
) -> None:
    for is_v2 in (False, True):
        one = begun(control, f"open {is_v2}", is_v2, 60_000)
        assert settled(lambda one=one: one.init(is_known=True)) == 0
        assert (one.epoch, state(control, one.name)) == (1, "Empty")
