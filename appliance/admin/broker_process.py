"""The part of the process that the admin pages use."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from appliance.alerts.alerts import Alerts
from appliance.broker.health import Health, Registered, Subject, Watch
from appliance.certificates.https import Https
from appliance.config import Address
from appliance.zookeeper.cluster_health import RegisteredBroker


class ClusterPath(Registered, Protocol):
    """A path in a ZooKeeper."""

    def brokers(self) -> list[RegisteredBroker]:
        """Waits for ZooKeeper. Raises ClusterUnread."""
        ...


class Process(Subject, Protocol):
    """All methods are fast, and run on the event loop."""

    @property
    def registration(self) -> ClusterPath | None: ...
    @property
    def kafka_addresses(self) -> Sequence[Address]: ...
    @property
    def admin_address(self) -> Address | None: ...
    @property
    def export_address(self) -> Address | None: ...  # of bulk data
    @property
    def alerts(self) -> Alerts | None: ...  # None until it serves
    @property
    def https(self) -> Https | None: ...  # what ports of HTTP speak TLS with, if one does
    @property
    def has_users(self) -> bool: ...  # as far as is known before the catalog is open
    watch: Watch
    setup_secret: str  # of the link for the first user; "": none
    async def has_first_user(self) -> None: ...  # the pages may be where they were meant to be
    def health(self) -> Health: ...
