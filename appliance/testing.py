"""A broker in the test process, for tests of code that speaks Kafka: no Java, no containers.

    def test_mine(appliance_broker):
        producer = Producer({"bootstrap.servers": appliance_broker.bootstrap})

    appliance_broker           a new broker for each test
    appliance_session_broker   one broker for all tests; topics of one test are there in the next
    appliance_settings         override it to change settings: {"num.partitions": "4"}
    appliance_logins           override it, and clients log in: [Login("ann", "ann's password")]
    appliance_tls              override it with True, and they come over TLS

pytest finds this plugin by itself once the package is installed. `embedded` has the broker without
pytest's fixtures.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pytest

from appliance.embedded import NO_SETTINGS, SETTINGS, Login, RunningBroker, running_broker

__all__ = ["SETTINGS", "Login", "RunningBroker", "running_broker"]


@pytest.fixture(scope="session")
def appliance_settings() -> Mapping[str, str]:
    """Settings by the names of docs/operations.md, over those in `SETTINGS`."""
    return NO_SETTINGS


@pytest.fixture(scope="session")
def appliance_logins() -> Sequence[Login]:
    """Who may log in. Without anybody the broker is open."""
    return ()


@pytest.fixture(scope="session")
def appliance_tls() -> bool:
    """Whether clients come over TLS."""
    return False


@pytest.fixture
def appliance_broker(
    tmp_path_factory: pytest.TempPathFactory,
    appliance_settings: Mapping[str, str],
    appliance_logins: Sequence[Login],
    appliance_tls: bool,
) -> Iterator[RunningBroker]:
    """A new broker, with `.bootstrap`, `.admin` and `.export`."""
    folder = tmp_path_factory.mktemp("appliance")
    with running_broker(
        folder, appliance_settings, logins=appliance_logins, tls=appliance_tls
    ) as broker:
        yield broker


@pytest.fixture(scope="session")
def appliance_session_broker(
    tmp_path_factory: pytest.TempPathFactory,
    appliance_settings: Mapping[str, str],
    appliance_logins: Sequence[Login],
    appliance_tls: bool,
) -> Iterator[RunningBroker]:
    """The one broker of this run, with `.bootstrap`, `.admin` and `.export`."""
    folder = tmp_path_factory.mktemp("appliance")
    with running_broker(
        folder, appliance_settings, logins=appliance_logins, tls=appliance_tls
    ) as broker:
        yield broker
