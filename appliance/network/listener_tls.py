"""TLS of one listener for Kafka clients, or with other brokers: its files, read again when they
change."""

from __future__ import annotations

import time

from appliance.certificates.https import mark_of
from appliance.certificates.keystore import content_of, password_in
from appliance.config import NO_FILE, BrokerConfig, TlsConfig
from appliance.config.listeners import ENCRYPTED
from appliance.config.tls import PKCS12, REQUIRED
from appliance.network._tls_context import Certificate, Rules, Store, TlsContext

# As long are the keys of session tickets used; who has one of before does a full handshake.
TICKET_KEYS_S = 12 * 3600

Seen = tuple[tuple[int, int, int] | None, ...]
InFiles = tuple[list[Certificate], list[Certificate]]


class ListenerTls:
    """`context` is for the data plane. `is_login`: the client's certificate says who it is."""

    def __init__(self, name: str, config: TlsConfig, *, is_login: bool) -> None:
        self.name, self.config = name, config
        self.certificates: list[Certificate] = []  # the broker's own first, then its chain
        self.trusted: list[Certificate] = []
        self.context = TlsContext(is_login)
        self._seen = self._look()
        self._load()

    def reload(self) -> int:
        """1 if there was something new. SettingInvalid, TlsInvalid: it cannot be used, and the
        former stays in force."""
        seen = self._look()
        if seen == self._seen and time.monotonic() - self._made < TICKET_KEYS_S:
            return 0
        self._load()
        is_new, self._seen = seen != self._seen, seen  # only now: a fault is told of until it ends
        return int(is_new)

    def _load(self) -> None:
        config = self.config
        least, most = min(config.protocols.all), max(config.protocols.all)
        rules = Rules(
            self.name.encode(), config.client_auth, least, most, config.ciphers.encode(),
            config.suites.encode(),
        )  # fmt: skip
        trust = [self._trust()] if config.has_truststore else []
        self.certificates, self.trusted = self._use(rules, self._own(), trust)
        self._made = time.monotonic()

    def _use(self, rules: Rules, own: Store, trust: list[Store]) -> InFiles:
        return self.context.use(rules, own, trust)

    def _own(self) -> Store:
        config, key = self.config, b""
        if config.key != NO_FILE:
            key = content_of("ssl.key.location", config.key)
        return Store(
            content_of("ssl.keystore.location", config.keystore),
            config.keystore_type == PKCS12,
            password_in(config.keystore_password_file).encode(),
            key,
            f"ssl.keystore.location: {config.keystore}",
        )

    def _trust(self) -> Store:
        config = self.config
        return Store(
            content_of("ssl.truststore.location", config.truststore),
            config.truststore_type == PKCS12,
            password_in(config.truststore_password_file).encode(),
            b"",
            f"ssl.truststore.location: {config.truststore}",
        )

    def _look(self) -> Seen:
        return tuple(mark_of(each) for each in self.config.files)


class TlsToBrokers(ListenerTls):
    """Of connections to the listeners of this name that other brokers have. The certificate of the
    listener here is shown there."""

    def _use(self, rules: Rules, own: Store, trust: list[Store]) -> InFiles:
        return self.context.use_as_client(rules._replace(client_auth=REQUIRED), own, trust)


def tls_of_listeners(config: BrokerConfig) -> dict[str, ListenerTls]:
    """Of those that are encrypted. Blocks."""
    return {
        each.name: ListenerTls(each.name, config.tls_of(each.name), is_login=config.is_login(each))
        for each in config.listeners
        if config.protocols.of(each.name) in ENCRYPTED
    }
