"""Who a connection is by its certificate, and when that ends."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from cryptography import x509
from cryptography.x509.oid import NameOID

from appliance.access.certificate_logins import CertificateLogins, CertificateRefused
from appliance.access.principal import ANONYMOUS, Principal

RULES = {0: "RULE:^CN=(.*)$/$1/", 1: "DEFAULT"}
DELETED_MS = 1_700_000_000_000


@dataclass
class Plane:
    closed: list[int] = field(default_factory=list)

    def close(self, connection: int) -> None:
        self.closed.append(connection)


def subject(name: str) -> bytes:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]).public_bytes()


def is_withdrawn(name: str, issued_ms: int) -> bool:
    return name == "ann" and issued_ms <= DELETED_MS


@pytest.fixture
def plane() -> Plane:
    return Plane()


@pytest.fixture
def logins(plane: Plane) -> CertificateLogins:
    made = CertificateLogins(RULES, is_withdrawn)
    made.connect(plane)
    return made


def test_each_listener_has_rules_of_its_own(logins: CertificateLogins) -> None:
    assert logins.came(1, 0, subject("bob"), 0) == Principal("User", "bob")
    assert logins.came(2, 1, subject("bob"), 0) == Principal("User", "CN=bob")
    assert logins.came(3, 1, b"", 0) == ANONYMOUS
    assert [logins.principal_of(each) for each in (1, 2, 3, 4)] == [
        Principal("User", "bob"),
        Principal("User", "CN=bob"),
        ANONYMOUS,
        None,
    ]


def test_nothing_is_kept_of_a_connection_that_ended(logins: CertificateLogins) -> None:
    logins.came(1, 0, subject("bob"), 0)
    logins.gone(1)
    assert logins.principal_of(1) is None
    logins.gone(1)  # another kind of listener


def test_a_certificate_of_before_the_deletion_is_refused(logins: CertificateLogins) -> None:
    for not_before_s in (0, DELETED_MS // 1000 - 1, DELETED_MS // 1000):
        with pytest.raises(CertificateRefused, match="was deleted"):
            logins.came(1, 0, subject("ann"), not_before_s)
        assert logins.principal_of(1) is None
    assert logins.came(1, 0, subject("ann"), DELETED_MS // 1000 + 1).name == "ann"
    assert logins.came(2, 1, subject("ann"), 0).name == "CN=ann"  # somebody else


def test_a_deletion_ends_connections_of_that_name_alone(
    logins: CertificateLogins, plane: Plane
) -> None:
    logins.came(1, 0, subject("bob"), 0)
    logins.came(2, 1, subject("bob"), 0)
    logins.came(3, 1, b"", 0)
    logins.withdraw("bob", {1, 2})  # another password
    logins.withdraw("ANONYMOUS", None)  # a user of that name is not everybody
    assert plane.closed == []
    logins.withdraw("bob", None)
    assert plane.closed == [1]
