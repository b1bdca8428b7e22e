"""TLS: the certificate of this broker, and whose certificates it trusts."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from appliance.config.setting import Part, setting

NO_FILE = Path(os.devnull)


@dataclass(frozen=True)
class TlsConfig(Part):
    keystore: Path = setting(
        "ssl.keystore.location",
        NO_FILE,
        "The certificate of this broker with its chain, and its private key. It is read again when "
        "it changes.",
        default_words="none",
    )
    keystore_type: str = setting(
        "ssl.keystore.type",
        "PEM",
        "What the key store is.",
        choices=("PEM", "PKCS12"),
    )
    keystore_password_file: Path = setting(
        "ssl.keystore.password.file",
        NO_FILE,
        "A file with one line, the password of the key store. A file, so that no list of settings "
        "or processes shows it.",
        default_words="none",
    )
    key: Path = setting(
        "ssl.key.location",
        NO_FILE,
        "The private key, if it is in a file of its own.",
        default_words="in the key store",
    )

    @property
    def has_keystore(self) -> bool:
        return self.keystore != NO_FILE
