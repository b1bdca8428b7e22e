"""What is written in a certificate, and what is wrong with it for a server."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from itertools import pairwise

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.hashes import SHA256

RSA_BITS_MIN, EC_BITS_MIN = 2048, 224
SOON = timedelta(days=30)


@dataclass(frozen=True)
class Facts:
    subject: str
    issuer: str
    names: tuple[str, ...]
    not_before: datetime
    not_after: datetime
    key: str  # kind and size
    is_ca: bool
    is_self_signed: bool
    fingerprint: str  # SHA-256

    @property
    def days_left(self) -> int:
        return (self.not_after - datetime.now(timezone.utc)).days


def certificates_in(pem: bytes) -> list[x509.Certificate]:
    """ValueError: there is none."""
    return x509.load_pem_x509_certificates(pem)


def facts_of(certificate: x509.Certificate) -> Facts:
    return Facts(
        certificate.subject.rfc4514_string(),
        certificate.issuer.rfc4514_string(),
        tuple(names_of(certificate)),
        certificate.not_valid_before_utc,
        certificate.not_valid_after_utc,
        " ".join(map(str, key_of(certificate))),
        is_authority(certificate),
        is_signed_by(certificate, certificate),
        certificate.fingerprint(SHA256()).hex(":").upper(),
    )


def names_of(certificate: x509.Certificate) -> list[str]:
    try:
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return []
    addresses = map(str, found.get_values_for_type(x509.IPAddress))
    return [*found.get_values_for_type(x509.DNSName), *addresses]


def is_authority(certificate: x509.Certificate) -> bool:
    try:
        return certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except x509.ExtensionNotFound:
        return False


def key_of(certificate: x509.Certificate) -> tuple[str, int]:
    key = certificate.public_key()
    if isinstance(key, rsa.RSAPublicKey):
        return "RSA", key.key_size
    if isinstance(key, ec.EllipticCurvePublicKey):
        return "ECDSA", key.curve.key_size
    return type(key).__name__.lstrip("_"), 0


def is_signed_by(certificate: x509.Certificate, issuer: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(issuer)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def faults_of(chain: Sequence[x509.Certificate]) -> list[str]:
    """Why clients would refuse it, as far as it says so itself. The first is the server's."""
    first, found = chain[0], list[str]()
    kind, bits = key_of(first)
    least = {"RSA": RSA_BITS_MIN, "ECDSA": EC_BITS_MIN}.get(kind, 0)
    if bits < least:
        found.append(f"its key is {kind} of {bits} bits, wanted {least} or more")
    if not names_of(first):
        found.append("it has no names (subjectAltName): no client of today takes the common name")
    found += dates_of(chain)
    for each, issuer in pairwise(chain):
        if not is_signed_by(each, issuer):
            found.append(
                f"{each.subject.rfc4514_string()}: it is not signed by the next of the chain, "
                f"{issuer.subject.rfc4514_string()}"
            )
    return found


def dates_of(certificates: Sequence[x509.Certificate]) -> list[str]:
    """What is wrong with when they are good, or will be soon."""
    found, now = list[str](), datetime.now(timezone.utc)
    for each in certificates:
        named = each.subject.rfc4514_string()
        if each.not_valid_after_utc <= now:
            found.append(f"{named}: it expired at {each.not_valid_after_utc:%Y-%m-%d %H:%M} UTC")
        elif each.not_valid_after_utc <= now + SOON:
            found.append(f"{named}: it expires at {each.not_valid_after_utc:%Y-%m-%d %H:%M} UTC")
        if each.not_valid_before_utc > now:
            found.append(f"{named}: it is not valid before {each.not_valid_before_utc:%Y-%m-%d}")
    return found
