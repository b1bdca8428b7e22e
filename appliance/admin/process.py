"""The part of the process that the admin pages use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from appliance.broker.broker import Broker
from appliance.broker.health import Health, PortConnections, Registered, Watch
from appliance.config import Address, BrokerConfig
from appliance.network._data_plane import DataPlane


class Process(Protocol):
    """All methods are fast, and run on the event loop."""

    @property
    def config(self) -> BrokerConfig: ...
    @property
    def status(self) -> str: ...
    @property
    def started(self) -> float: ...  # of time.monotonic()
    @property
    def recovered(self) -> tuple[int, int]: ...  # partitions, and how many there are
    @property
    def broker(self) -> Broker | None: ...  # None until the logs are recovered
    @property
    def data_plane(self) -> DataPlane | None: ...
    @property
    def registration(self) -> Registered | None: ...
    @property
    def faults(self) -> Mapping[str, str]: ...
    @property
    def kafka_address(self) -> Address | None: ...
    @property
    def admin_address(self) -> Address | None: ...
    @property
    def export_address(self) -> Address | None: ...  # of bulk data
    @property
    def connections(self) -> Sequence[PortConnections]: ...  # of the ports of HTTP
    @property
    def has_users(self) -> bool: ...  # as far as is known before the catalog is open
    watch: Watch
    setup_secret: str  # of the link for the first user; "": none
    async def has_first_user(self) -> None: ...  # the pages may be where they were meant to be
    def health(self) -> Health: ...
