"""Which ports speak TLS with which key store, and the certificates in a store."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from appliance.certificates.keystore import as_pem, content_of, trusted_in
from appliance.config import BrokerConfig, SettingInvalid, TlsConfig
from appliance.config.listeners import ENCRYPTED

if TYPE_CHECKING:
    from cryptography.x509 import Certificate


def ports_by_tls(config: BrokerConfig) -> list[tuple[TlsConfig, list[str]]]:
    """Each store once, with the ports that use it. That for all of them is first."""
    found: list[tuple[TlsConfig, list[str]]] = [(config.tls, [])] if config.tls.has_keystore else []
    ports = [(str(each), config.tls_of(each.name)) for each in config.listeners
             if config.protocols.of(each.name) in ENCRYPTED]  # fmt: skip
    ports += [(f"admin port {config.admin_address}", config.tls)] * config.admin_has_tls
    ports += [(f"bulk data {config.export_listens}", config.tls)] * config.export_has_tls
    for port, tls in ports:
        known = next((used for each, used in found if each == tls), None)
        if known is None:
            found.append((tls, [port]))
        else:
            known.append(port)
    return found


def chain_of(tls: TlsConfig) -> list[Certificate]:
    with as_pem(tls) as (chain, _, _):
        pem = content_of("ssl.keystore.location", Path(chain))
    return read(pem, f"ssl.keystore.location: {tls.keystore}")


def trusted_by(tls: TlsConfig) -> list[Certificate]:
    """Whose word for clients is believed."""
    if not tls.has_truststore:
        return []
    return read(trusted_in(tls), f"ssl.truststore.location: {tls.truststore}")


def read(pem: bytes, named: str) -> list[Certificate]:
    from appliance.certificates.certificate import certificates_in  # with cryptography

    try:
        return certificates_in(pem)
    except ValueError as error:
        raise SettingInvalid(f"{named}: {error}; wanted certificates in PEM") from error
