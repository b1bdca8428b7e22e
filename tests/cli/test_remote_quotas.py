"""Quotas by the command line: clients are held to what is told."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from appliance.testing import running_broker
from tests.support.shell import Shell

WAIT_S = 20
LIMITS = "producer_byte_rate=1KiB request_percentage=50"


@pytest.fixture(scope="module")
def addresses(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    with running_broker(tmp_path_factory.mktemp("quotas") / "data") as broker:
        yield broker.bootstrap, broker.admin


@pytest.fixture
def shell(addresses: tuple[str, str]) -> Iterator[Shell]:
    shell = Shell(addresses[1])
    yield shell
    assert shell.json("quota list")["quotas"] == []


def test_a_client_is_held_to_the_quota_that_was_set(
    shell: Shell, addresses: tuple[str, str]
) -> None:
    bootstrap, _ = addresses
    assert shell.out("quota list").startswith("There are no quotas")
    told = shell.out(f"quota set {LIMITS} --client loader --user ANONYMOUS")
    assert [line.split("  ")[0] for line in told.splitlines()[1:]] == [
        "client loader of user ANONYMOUS"] * 2  # fmt: skip
    assert "1 KiB/s" in told
    assert "50 % (has no effect)" in told
    assert delays_of("loader", bootstrap)
    assert not delays_of("other", bootstrap)
    assert shell.out("quota remove --client loader --user ANONYMOUS") == (
        "It has no quota any more.\n")
    assert not delays_of("loader", bootstrap)


def delays_of(client_id: str, bootstrap: str) -> list[float]:
    """For how long the broker told this client to wait, of those that it did."""
    found: list[float] = []
    producer = Producer({
        "bootstrap.servers": bootstrap, "linger.ms": 0, "client.id": client_id,
        "throttle_cb": lambda event: found.append(event.throttle_time),
    })  # fmt: skip
    producer.produce("quotas", bytes(20_000))
    assert producer.flush(WAIT_S) == 0
    producer.poll(0)  # the delay is told with the answer, and may come behind the delivery
    return [each for each in found if each > 0]


def test_quotas_of_every_client_and_of_an_address(shell: Shell) -> None:
    shell.out("quota set consumer_byte_rate=10MB --every-client")
    shell.out("quota set connection_creation_rate=500 --address 127.0.0.9")
    listed = shell.json("quota list")["quotas"]
    assert [each["entity"] for each in listed] == [{"client_id": None}, {"ip": "127.0.0.9"}]
    assert [each["value"] for row in listed for each in row["values"]] == [10_000_000, 500]
    assert shell.json("quota remove consumer_byte_rate --every-client") == {"quotas": []}
    shell.out("quota remove --address 127.0.0.9")


@pytest.mark.parametrize(
    ("line", "code", "told"),
    [
        ("set producer_byte_rate=1", 2, "wanted whom it is for: --user, --client"),
        ("set producer_byte_rate=1 --user a --address 127.0.0.1", 2, "wanted whom it is for"),
        ("set producer_byte_rate=1 --user a --every-user", 2, "wanted one of them"),
        ("set producer_byte_rate --user a", 2, "got 'producer_byte_rate', wanted NAME=VALUE"),
        ("set producer_byte_rate=fast --user a", 1, "got 'fast', wanted a number"),
        ("set no_such_rate=1 --user a", 1, "no_such_rate"),
        ("set connection_creation_rate=1 --address here", 1, "here"),
        ("remove producer_byte_rate --user a", 3, "producer_byte_rate: it has no quota"),
        ("remove --user a", 3, "nothing to remove: it has no quota"),
    ],
)
def test_what_is_wrong_is_told(shell: Shell, line: str, code: int, told: str) -> None:
    result = shell.run(f"quota {line}")
    assert (result.exit_code, told in result.output) == (code, True), result.output
