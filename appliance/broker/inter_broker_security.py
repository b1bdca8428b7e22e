"""What a connection to another broker of the cluster takes before a request: TLS and a login, as
this broker's listener for brokers has them. A follower's thread has it from here, and so has
`peers.py`.
"""

from __future__ import annotations

import ssl

from appliance.certificates.https import versions_of
from appliance.certificates.keystore import load_into, trusted_in
from appliance.config import BrokerConfig, SettingInvalid, TlsConfig
from appliance.config.listeners import ENCRYPTED, WITH_LOGIN
from appliance.network.listener_tls import TlsToBrokers
from appliance.replication.inter_broker_login import InterBrokerLogin


class InterBrokerSecurity:
    """Blocks to read files."""

    def __init__(self, config: BrokerConfig) -> None:
        listener, protocol = config.inter_broker_listener, config.inter_broker_protocol
        self.listener = listener.name
        self.tls: TlsToBrokers | None = None
        self.context: ssl.SSLContext | None = None  # the same, for Python
        self.login = InterBrokerLogin(config.replication) if protocol in WITH_LOGIN else None
        if protocol in ENCRYPTED:
            self._config = config.tls_of(listener.name)
            self.tls = TlsToBrokers(listener.name, self._config, is_login=False)
            self.context = context_of(self._config)

    def reload(self) -> int:
        """1 if a file has something new, for connections that begin from now on. SettingInvalid,
        TlsInvalid: it cannot be used, and the former stays in force."""
        if self.tls is None or not self.tls.reload():
            return 0
        self.context = context_of(self._config)
        return 1


def context_of(config: TlsConfig) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # which checks certificate and host
    context.minimum_version, context.maximum_version = versions_of(config)
    context.set_ciphers(config.ciphers)
    load_into(context, config)
    try:
        context.load_verify_locations(cadata=trusted_in(config).decode())
    except (ssl.SSLError, UnicodeDecodeError) as error:
        raise SettingInvalid(
            f"ssl.truststore.location: {config.truststore}: no certificates in it: {error}"
        ) from error
    return context
