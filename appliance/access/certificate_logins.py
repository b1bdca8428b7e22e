"""Clients that say who they are by their certificate: the subject, and its rules, to a principal.

The data plane has checked that the certificate is good. It does not read the connection before it
is told who that is.
"""

from __future__ import annotations

from collections.abc import Mapping

from appliance.access.distinguished_name import text_of
from appliance.access.principal import ANONYMOUS, USER, Principal
from appliance.access.principal_mapping import PrincipalMapping
from appliance.errors import ApplianceError

CERTIFICATE = "certificate"  # the mechanism, in the audit trail


class CertificateRefused(ApplianceError):
    """It says nobody's name."""

    kafka_code = 58


class CertificateLogins:
    def __init__(self, rules: Mapping[int, str]) -> None:
        """Rules by the number of a listener, for those where the certificate is the login."""
        self._mappings = {listener: PrincipalMapping(text) for listener, text in rules.items()}
        self._principals: dict[int, Principal] = {}  # by connection

    def came(self, connection: int, listener: int, subject: bytes) -> Principal:
        """With a subject in DER; without one it is nobody, where that is allowed.
        CertificateRefused, MalformedMessage: the client is not let in."""
        self._principals[connection] = found = self._principal(listener, subject)
        return found

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
