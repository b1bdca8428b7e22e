"""Who is at each connection: logins that are under way, and those that succeeded."""

from __future__ import annotations

from appliance.access.principal import ANONYMOUS, Principal


class Logins:
    """On the event loop."""

    def principal_of(self, connection: int) -> Principal:
        return ANONYMOUS

    def gone(self, connection: int) -> None:
        """It ended, or never logged in."""
