"""Logins, TLS and rights of a real Apache Kafka, for `KafkaBroker(directory, security=...)`.

    security = Security(("SASL_PLAINTEXT", "SASL_SSL"), users={"alice": "alice-secret"})
    with KafkaBroker(directory, security=security) as kafka:
        kafka.addresses["SASL_SSL"]

There is a listener for each protocol, named after it. Users log in with SCRAM-SHA-256,
SCRAM-SHA-512 and PLAIN, and with OAUTHBEARER by an unsigned token (`unsigned_token`). The broker
itself and its tools (`kafka.tool`) use a listener of their own, INTERNAL, as the super user
`broker`.
"""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.certificates import Authority

HASHES = ("SCRAM-SHA-256", "SCRAM-SHA-512")
MECHANISMS = (*HASHES, "PLAIN", "OAUTHBEARER")
BROKER, BROKER_PASSWORD = "broker", "broker-secret"
INTERNAL, CONTROLLER = "INTERNAL", "CONTROLLER"
MODULES = "org.apache.kafka.common.security"
SCRAM = f"{MODULES}.scram.ScramLoginModule required"
PLAIN = f"{MODULES}.plain.PlainLoginModule required"
BEARER = f"{MODULES}.oauthbearer.OAuthBearerLoginModule required"
PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")


@dataclass(frozen=True)
class Security:
    protocols: tuple[str, ...] = ("SASL_PLAINTEXT",)  # the first one is `kafka.address`
    users: Mapping[str, str] = field(default_factory=dict)  # passwords by name
    super_users: tuple[str, ...] = ()  # as in `User:admin`
    is_authorized: bool = True  # by StandardAuthorizer; False: everybody may do everything
    authority: Authority | None = None  # needed for SSL; it signs the broker's certificate
    client_auth: str = "none"  # of the listeners with SSL: none, requested or required
    settings: Mapping[str, str] = field(default_factory=dict)  # of Kafka's, over all others

    def properties(self) -> dict[str, str]:
        """Without addresses."""
        protocols = {each: each for each in self.protocols}
        protocols |= {INTERNAL: "SASL_PLAINTEXT", CONTROLLER: "SASL_PLAINTEXT"}
        shown = {
            "listener.security.protocol.map": ",".join(map(":".join, protocols.items())),
            "inter.broker.listener.name": INTERNAL,
            "sasl.mechanism.inter.broker.protocol": "PLAIN",
            "sasl.mechanism.controller.protocol": "PLAIN",
        }
        own = plain_login(BROKER, BROKER_PASSWORD, {BROKER: BROKER_PASSWORD})
        for name in (INTERNAL, CONTROLLER):
            shown |= listener(name, {"sasl.enabled.mechanisms": "PLAIN",
                                     "plain.sasl.jaas.config": own})
        for name in self.protocols:
            shown |= listener(name, self._of(name))
        if self.is_authorized:
            shown |= {
                "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
                "super.users": ";".join((f"User:{BROKER}", *self.super_users)),
            }
        return {**shown, **self.settings}

    def _of(self, protocol: str) -> dict[str, str]:
        settings: dict[str, str] = {}
        if protocol.startswith("SASL"):
            settings |= {"sasl.enabled.mechanisms": ",".join(MECHANISMS),
                         "plain.sasl.jaas.config": plain_login("", "", self.users),
                         "oauthbearer.sasl.jaas.config": f"{BEARER} unsecuredLoginStringClaim_sub"
                                                         '="nobody";'}
            settings |= {f"{each.lower()}.sasl.jaas.config": f"{SCRAM};" for each in HASHES}
        if protocol.endswith("SSL"):
            assert self.authority is not None, f"{protocol} needs an authority"
            own = self.authority.issue("kafka")
            settings |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(own.both),
                         "ssl.truststore.type": "PEM", "ssl.client.auth": self.client_auth,
                         "ssl.truststore.location": str(self.authority.trust)}
        return settings

    def format_words(self) -> list[str]:
        """For the tool that formats a directory: Kafka keeps SCRAM credentials in its metadata."""
        return [word for name, password in self.users.items() for each in HASHES
                for word in ("--add-scram", f"{each}=[name={name},password={password}]")]


def listener(name: str, settings: Mapping[str, str]) -> dict[str, str]:
    return {f"listener.name.{name.lower()}.{key}": value for key, value in settings.items()}


def plain_login(name: str, password: str, users: Mapping[str, str]) -> str:
    own = f' username="{name}" password="{password}"' if name else ""
    return f"{PLAIN}{own}{''.join(f' user_{each}={quoted(users[each])}' for each in users)};"


def quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def write_tool_settings(path: Path) -> Path:
    """With these, Kafka's tools log in as the broker itself."""
    path.write_text("security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
                    f"sasl.jaas.config={plain_login(BROKER, BROKER_PASSWORD, {})}\n")
    return path


def unsigned_token(name: str, seconds: float = 3600) -> str:
    """A token that Apache Kafka believes as long as nobody gives it keys: `alg` is none."""
    now = time.time()
    parts = ({"alg": "none"}, {"sub": name, "iat": now, "exp": now + seconds})
    octets = [base64.urlsafe_b64encode(json.dumps(each).encode()).rstrip(b"=") for each in parts]
    return b".".join([*octets, b""]).decode()
