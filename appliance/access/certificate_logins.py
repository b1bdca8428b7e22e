"""Clients that say who they are by their certificate: the subject, and its rules, to a principal.

The data plane has checked that the certificate is good. It does not read the connection before it
is told who that is.

A certificate is good without a user of its name. But when there is one, and it is deleted, its
connections end, and certificates from before open nothing any more (`users.py`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from typing import Protocol

from appliance.access.distinguished_name import text_of
from appliance.access.principal import ANONYMOUS, USER, Principal
from appliance.access.principal_mapping import PrincipalMapping
from appliance.errors import ApplianceError
from appliance.process import event_log

log = event_log.named("logins")

CERTIFICATE = "certificate"  # the mechanism, in the audit trail


class CertificateRefused(ApplianceError):
    """It says nobody's name."""

    kafka_code = 58


class DataPlane(Protocol):
    def close(self, connection: int) -> None: ...


class CertificateLogins:
    def __init__(self, rules: Mapping[int, str], is_withdrawn: Callable[[str, int], bool]) -> None:
        """Rules by the number of a listener, for those where the certificate is the login.
        `is_withdrawn`: whether what was issued to this name at this time counts no more."""
        self._is_withdrawn = is_withdrawn
        self._data_plane: DataPlane | None = None
        self._mappings = {listener: PrincipalMapping(text) for listener, text in rules.items()}
        self._principals: dict[int, Principal] = {}  # by connection
        # Since the start, by the number of a listener
        self.succeeded: Counter[int] = Counter(dict.fromkeys(rules, 0))
        self.failed: Counter[int] = Counter(dict.fromkeys(rules, 0))

    def connect(self, data_plane: DataPlane) -> None:
        self._data_plane = data_plane

    def came(self, connection: int, listener: int, subject: bytes, not_before_s: int) -> Principal:
        """With a subject in DER; without one it is nobody, where that is allowed.
        CertificateRefused, MalformedMessage: the client is not let in."""
        try:
            found = self._let_in(listener, subject, not_before_s)
        except ApplianceError:
            self.failed[listener] += 1
            raise
        self._principals[connection] = found
        self.succeeded[listener] += found != ANONYMOUS
        return found

    def _let_in(self, listener: int, subject: bytes, not_before_s: int) -> Principal:
        found = self._principal(listener, subject)
        if subject and self._is_withdrawn(found.name, not_before_s * 1000):
            text = f"user {found.name[:80]!r} was deleted, and the certificate is from before that"
            raise CertificateRefused(text)
        return found

    def withdraw(self, name: str, mechanisms: Collection[int] | None) -> None:
        """Another password changes nothing; None: the user is gone."""
        if mechanisms is not None or self._data_plane is None:
            return
        ended = [connection for connection, each in self._principals.items()
                 if each.name == name and each != ANONYMOUS]  # fmt: skip
        for connection in ended:
            self._data_plane.close(connection)
        if ended:
            log.info("connections ended", count=len(ended), user=name, why="the user is deleted")

    def principal_of(self, connection: int) -> Principal | None:
        """None: it came to another kind of listener."""
        return self._principals.get(connection)

    def gone(self, connection: int) -> None:
        self._principals.pop(connection, None)

    def _principal(self, listener: int, subject: bytes) -> Principal:
        if not subject:
            return ANONYMOUS
        text = text_of(subject)
        name = self._mappings[listener].name_of(text)
        if not name:
            raise CertificateRefused(
                f"no rule of ssl.principal.mapping.rules is for the certificate of {text[:1000]!r}"
            )
        return Principal(USER, name)
