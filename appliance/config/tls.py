"""TLS: the certificate of this broker, whose certificates it trusts, and what clients may speak."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from appliance.config.names import NO_NAMES, Names
from appliance.config.setting import Part, SettingInvalid, setting

NO_FILE = Path(os.devnull)

PEM, PKCS12 = "PEM", "PKCS12"
NONE, REQUESTED, REQUIRED = "none", "requested", "required"
CLIENT_AUTH = "ssl.client.auth"
TLS_1_2, TLS_1_3 = "TLSv1.2", "TLSv1.3"

# What may be spoken, in the order in which it is preferred: keys that are new for each connection,
# and ciphers that notice every changed bit. By its name in the standard, and by OpenSSL's.
SUITES_1_3 = ("TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256")
SUITES_1_2 = {
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256": "ECDHE-ECDSA-AES128-GCM-SHA256",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256": "ECDHE-RSA-AES128-GCM-SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384": "ECDHE-ECDSA-AES256-GCM-SHA384",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384": "ECDHE-RSA-AES256-GCM-SHA384",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-ECDSA-CHACHA20-POLY1305",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-RSA-CHACHA20-POLY1305",
}


@dataclass(frozen=True)
class TlsConfig(Part):
    keystore: Path = setting(
        "ssl.keystore.location",
        NO_FILE,
        "The certificate of this broker with its chain, and its private key. It is read again when "
        "it changes.",
        default_words="none",
        of_listener=True,
    )
    keystore_type: str = setting(
        "ssl.keystore.type",
        PEM,
        "What the key store is.",
        choices=(PEM, PKCS12),
        of_listener=True,
    )
    keystore_password_file: Path = setting(
        "ssl.keystore.password.file",
        NO_FILE,
        "A file with one line, the password of the key store. A file, so that no list of settings "
        "or processes shows it.",
        default_words="none",
        of_listener=True,
    )
    key: Path = setting(
        "ssl.key.location",
        NO_FILE,
        "The private key, if it is in a file of its own.",
        default_words="in the key store",
        of_listener=True,
    )
    truststore: Path = setting(
        "ssl.truststore.location",
        NO_FILE,
        "Certificates of those whose word for clients is believed. It is read again when it "
        "changes.",
        default_words="none",
        of_listener=True,
    )
    truststore_type: str = setting(
        "ssl.truststore.type",
        PEM,
        "What the trust store is.",
        choices=(PEM, PKCS12),
        of_listener=True,
    )
    truststore_password_file: Path = setting(
        "ssl.truststore.password.file",
        NO_FILE,
        "A file with one line, the password of the trust store.",
        default_words="none",
        of_listener=True,
    )
    client_auth: str = setting(
        CLIENT_AUTH,
        NONE,
        "Whether clients must show a certificate: on a listener with SSL it says who they are. "
        "With `requested` one without is `User:ANONYMOUS`. With SASL_SSL, where the login says it, "
        "it counts only if it is set for the listener, as in Kafka.",
        choices=(NONE, REQUESTED, REQUIRED),
        of_listener=True,
    )
    protocols: Names = setting(
        "ssl.enabled.protocols",
        Names((TLS_1_2, TLS_1_3)),
        "Versions that clients may speak. TLSv1.2 is there for Java 8 before 2020 and others of "
        "that time.",
        of_listener=True,
    )
    cipher_suites: Names = setting(
        "ssl.cipher.suites",
        NO_NAMES,
        "Cipher suites, the preferred ones first, of those that are safe: ECDHE with AES-GCM or "
        "ChaCha20. AES with 128 bits is first, as a processor does it in three quarters of the "
        "time of 256.",
        default_words="all safe ones",
        of_listener=True,
    )
    principal_rules: str = setting(
        "ssl.principal.mapping.rules",
        "DEFAULT",
        "What of a certificate's subject is the client's name: RULE:pattern/replacement/, with L "
        "or U behind it for small or capital letters, or DEFAULT for all of it. The first that "
        "fits counts; where none does, the client is refused.",
        of_listener=True,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        check_names("ssl.enabled.protocols", self.protocols, (TLS_1_2, TLS_1_3))
        if not self.protocols.all:
            raise SettingInvalid("ssl.enabled.protocols: got nothing, wanted TLSv1.2 or TLSv1.3")
        check_names("ssl.cipher.suites", self.cipher_suites, (*SUITES_1_3, *SUITES_1_2))
        if self.client_auth != NONE and not self.has_truststore:
            raise SettingInvalid(
                f"{CLIENT_AUTH}: got {self.client_auth}, and nobody's certificate is good; "
                "wanted ssl.truststore.location with it"
            )

    @property
    def has_keystore(self) -> bool:
        return self.keystore != NO_FILE

    @property
    def has_truststore(self) -> bool:
        return self.truststore != NO_FILE

    @property
    def files(self) -> list[Path]:
        """All that are read, and may change."""
        named = (self.keystore, self.keystore_password_file, self.key, self.truststore,
                 self.truststore_password_file)  # fmt: skip
        return [each for each in named if each != NO_FILE]

    @property
    def ciphers(self) -> str:
        """Of TLS 1.2, as OpenSSL wants them."""
        wanted = [each for each in self.cipher_suites.all if each in SUITES_1_2] or SUITES_1_2
        return ":".join(SUITES_1_2[each] for each in wanted)

    @property
    def suites(self) -> str:
        """Of TLS 1.3."""
        return ":".join([it for it in self.cipher_suites.all if it in SUITES_1_3] or SUITES_1_3)


def check_names(setting: str, got: Names, known: tuple[str, ...]) -> None:
    unknown = [each for each in got.all if each not in known]
    if unknown:
        raise SettingInvalid(
            f"{setting}: got {','.join(unknown)}, wanted names of {', '.join(known)}"
        )
