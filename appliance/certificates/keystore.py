"""The key store that the settings name: the broker's certificate, its chain, and its private key.

Python's ssl takes files in PEM. A PKCS#12 becomes PEM in memory that has a name and no place on a
disk.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from appliance.config import NO_FILE, SettingInvalid, TlsConfig

PKCS12 = "PKCS12"
FILE_BYTES_MAX = 1 << 20  # a chain has some kilobytes


@contextmanager
def as_pem(config: TlsConfig) -> Iterator[tuple[str, str | None, str]]:
    """Paths of certificates and key (None: it is among them), and the password."""
    password = password_in(config.keystore_password_file)
    if config.keystore_type != PKCS12:
        key = None if config.key == NO_FILE else str(config.key)
        yield str(config.keystore), key, password
        return
    data = unpacked(content_of("ssl.keystore.location", config.keystore), password, config.keystore)
    with open(os.memfd_create("keystore", os.MFD_CLOEXEC), "wb", buffering=0) as memory:
        memory.write(data)
        yield f"/proc/self/fd/{memory.fileno()}", None, ""


def load_into(context: ssl.SSLContext, config: TlsConfig) -> None:
    """SettingInvalid: it cannot be used, and why."""
    with as_pem(config) as (chain, key, password):
        shown = content_of("ssl.keystore.location", Path(chain))  # OpenSSL's errors name no file
        secret = shown if key is None else content_of("ssl.key.location", Path(key))
        try:
            # without a function OpenSSL would ask on the terminal
            context.load_cert_chain(chain, key, lambda: password)
        except ssl.SSLError as error:
            why = SAID.get(error.reason or "") or missing_in(shown, secret, password) or str(error)
            raise SettingInvalid(f"ssl.keystore.location: {config.keystore}: {why}") from error


SAID = {
    "KEY_VALUES_MISMATCH": "the private key is not that of the first certificate; wanted the "
    "broker's own certificate first, and its key",
    "EE_KEY_TOO_SMALL": "the key is too small; wanted RSA of 2048 bits or more, or ECDSA",
    "CA_MD_TOO_WEAK": "a signature is by a hash that is broken; wanted SHA-256 or better",
}


def missing_in(chain: bytes, key: bytes, password: str) -> str:
    """OpenSSL says of all of these that it is no PEM."""
    if b"-----BEGIN CERTIFICATE-----" not in chain:
        return "no certificate is in it, wanted one in PEM"
    if b"PRIVATE KEY-----" not in key:
        return "no private key is in it, wanted it there in PEM, or in ssl.key.location"
    if b"ENCRYPTED" in key:
        got = "the password does not open the key" if password else "the key has a password"
        return f"{got}; wanted it in ssl.keystore.password.file"
    return ""


def unpacked(data: bytes, password: str, named: Path) -> bytes:
    """A PKCS#12 as PEM."""
    from cryptography.hazmat.primitives.serialization import (  # a start without one spares it
        Encoding,
        NoEncryption,
        PrivateFormat,
        pkcs12,
    )

    try:
        found = pkcs12.load_pkcs12(data, password.encode() or None)
    except ValueError as error:
        raise SettingInvalid(
            f"ssl.keystore.location: {named}: {error}; wanted a PKCS#12, and its password in "
            "ssl.keystore.password.file"
        ) from error
    if found.key is None or found.cert is None:
        raise SettingInvalid(
            f"ssl.keystore.location: {named}: got {'no' if found.key is None else 'a'} key and "
            f"{'no' if found.cert is None else 'a'} certificate for it, wanted both"
        )
    key = found.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    chain = [found.cert, *found.additional_certs]
    return b"".join([key, *(each.certificate.public_bytes(Encoding.PEM) for each in chain)])


def trusted_in(config: TlsConfig) -> bytes:
    """The certificates of the trust store as PEM. SettingInvalid: it cannot be used."""
    from cryptography.hazmat.primitives.serialization import Encoding, pkcs12

    setting = f"ssl.truststore.location: {config.truststore}"
    data = content_of("ssl.truststore.location", config.truststore)
    if config.truststore_type != PKCS12:
        return data
    password = password_in(config.truststore_password_file).encode() or None
    try:
        found = pkcs12.load_pkcs12(data, password).additional_certs
    except ValueError as error:
        raise SettingInvalid(
            f"{setting}: {error}; wanted a PKCS#12, and its password in "
            "ssl.truststore.password.file"
        ) from error
    return b"".join(each.certificate.public_bytes(Encoding.PEM) for each in found)


def content_of(setting: str, path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(FILE_BYTES_MAX)
    except OSError as error:
        raise SettingInvalid(f"{setting}: {path}: {error.strerror}") from error


def password_in(path: Path) -> str:
    """Without the end of its line. "": there is none."""
    if path == NO_FILE:
        return ""
    text = content_of("ssl.keystore.password.file", path)
    try:
        return text.decode().rstrip("\r\n")
    except UnicodeDecodeError:
        raise SettingInvalid(
            f"ssl.keystore.password.file: {path}: wanted one line of UTF-8"
        ) from None
