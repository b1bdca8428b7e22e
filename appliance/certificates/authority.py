"""An authority of one's own, and the certificates of servers that it signs.

Keys are ECDSA on P-256: every client of today knows it, and a handshake costs a server a tenth of
what RSA costs.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

AUTHORITY_DAYS = 3650
CLOCKS_DIFFER = timedelta(days=1)  # a client whose clock is behind takes the certificate, too
COMMON_NAME_MAX = 64  # of X.509


@dataclass(frozen=True)
class Signed:
    """A certificate and its private key."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @property
    def certificate_pem(self) -> bytes:
        return self.certificate.public_bytes(Encoding.PEM)

    @property
    def key_pem(self) -> bytes:
        """As Kafka wants it, PKCS#8."""
        return self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def made_authority(common_name: str, now: datetime | None = None) -> Signed:
    key, name = ec.generate_private_key(ec.SECP256R1()), named(common_name)
    usage = x509.KeyUsage(False, False, False, False, False, True, True, False, False)
    until = timedelta(days=AUTHORITY_DAYS)
    made = (
        begun(name, name, key.public_key(), now, until)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
    )
    return Signed(made.sign(key, SHA256()), key)


def authority_of(certificate: bytes, key: bytes) -> Signed:
    """One that was made before. ValueError: it is none of ours."""
    found = load_pem_private_key(key, None)
    if not isinstance(found, ec.EllipticCurvePrivateKey):
        raise ValueError("the key is no key of ECDSA")
    signed = Signed(x509.load_pem_x509_certificate(certificate), found)
    if signed.certificate.public_key() != found.public_key():
        raise ValueError("the key is not that of the certificate")
    return signed


def made_certificate(
    authority: Signed, names: Sequence[str], days: int, now: datetime | None = None
) -> Signed:
    """For a server of these names and addresses; the first is its common name."""
    key, issuer = ec.generate_private_key(ec.SECP256R1()), authority.certificate
    usage = x509.KeyUsage(True, False, False, False, False, False, False, False, False)
    # a broker is a client of ZooKeeper, and of a cluster that it mirrors
    both = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
    signer = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.key.public_key())
    until = timedelta(days=days)
    made = (
        begun(named(names[0]), issuer.subject, key.public_key(), now, until)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.ExtendedKeyUsage(both), critical=False)
        .add_extension(x509.SubjectAlternativeName(list(map(reached_as, names))), critical=False)
        .add_extension(signer, critical=False)
    )
    return Signed(made.sign(authority.key, SHA256()), key)


def begun(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, now: datetime | None,
    until: timedelta,
) -> x509.CertificateBuilder:  # fmt: skip
    now = now or datetime.now(timezone.utc)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(min(now, now + until) - CLOCKS_DIFFER)
        .not_valid_after(now + until)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def named(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name[:COMMON_NAME_MAX])])


def reached_as(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)
