"""Settings of logins and TLS: how a client proves who it is, and whom it believes.

The names are those of librdkafka, with `_` for `.`. Files are read when a connection is made, so a
new password or certificate needs no restart.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from appliance.client.errors import ConfigInvalid
from appliance.client.setting import check, rows_of, setting
from appliance.protocol.sasl_client import OAUTHBEARER, PLAIN, SCRAM_256, SCRAM_512

PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL = "PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"
PASSWORD = "sasl.password"
SECRET_SIZE_MAX = 64 << 10  # a token has a few KiB; another file was named by mistake

Token = Callable[[], str]


@dataclass(frozen=True, kw_only=True)
class SecurityConfig:
    """Settings of logins and TLS."""

    security_protocol: str = setting(
        PLAINTEXT,
        "As the broker's listener has it: SSL encrypts, SASL logs in.",
        choices=(PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL),
    )
    sasl_mechanism: str = setting(
        SCRAM_512,
        "How to log in. SCRAM never sends the password, and checks that the broker knows it, too. "
        "PLAIN and OAUTHBEARER send the secret itself: only with SASL_SSL, or on loopback.",
        choices=(SCRAM_256, SCRAM_512, PLAIN, OAUTHBEARER),
    )
    sasl_username: str = setting("", "The user, for all mechanisms but OAUTHBEARER.")
    sasl_password: str = setting(
        "",
        "The user's password. For programs; elsewhere one of the next two is safer.",
        is_secret=True,
    )
    sasl_password_file: str = setting(
        "", "A file with the password; an end of line at its end does not count."
    )
    sasl_password_env: str = setting("", "The name of an environment variable with the password.")
    sasl_oauthbearer_token: Token | None = setting(  # noqa: RUF009 - a field, as the others
        None, "A function that returns a token. Each login calls it, on the thread that connects."
    )
    sasl_oauthbearer_token_file: str = setting(
        "", "A file with a token, which another program keeps fresh."
    )
    ssl_ca_location: str = setting(
        "",
        "The authorities that may sign the broker's certificate: a file in PEM, or a directory. "
        "Empty: those of the system.",
    )
    ssl_certificate_location: str = setting(
        "",
        "The client's own certificate with its chain, a file in PEM. Only if the broker wants one.",
    )
    ssl_key_location: str = setting(
        "", "The key of that certificate. Empty: it is in the same file."
    )
    ssl_key_password_file: str = setting("", "A file with the password of an encrypted key.")
    ssl_endpoint_identification_algorithm: str = setting(
        "https",
        "`https` checks that the broker's certificate is for the host that the client connects to. "
        "With `none` any server with a certificate of that authority can play the broker.",
        choices=("https", "none"),
    )

    def __post_init__(self) -> None:
        for name, row, value, default in rows_of(self):
            check(name, row, value, default)
        self._check_login()
        self._check_tls()

    @property
    def has_login(self) -> bool:
        return self.security_protocol in (SASL_PLAINTEXT, SASL_SSL)

    @property
    def is_encrypted(self) -> bool:
        return self.security_protocol in (SSL, SASL_SSL)

    def password(self) -> str:
        if self.sasl_password_file:
            return secret_in("sasl_password_file", self.sasl_password_file)
        if not self.sasl_password_env:
            return self.sasl_password
        found = os.environ.get(self.sasl_password_env)
        if not found:
            state = "not set" if found is None else "empty"
            name = self.sasl_password_env
            raise ConfigInvalid(f"sasl_password_env: the environment variable {name} is {state}")
        return found

    def token(self) -> str:
        if self.sasl_oauthbearer_token is None:
            return secret_in("sasl_oauthbearer_token_file", self.sasl_oauthbearer_token_file)
        return self.sasl_oauthbearer_token()

    def _check_login(self) -> None:
        given = self._given("sasl_", but=("sasl_mechanism",))
        if not self.has_login:
            self._refuse(given, f"security_protocol is {self.security_protocol}")
            return
        tokens = {"sasl_oauthbearer_token", "sasl_oauthbearer_token_file"}
        passwords = {"sasl_password", "sasl_password_file", "sasl_password_env"}
        wanted = tokens if self.sasl_mechanism == OAUTHBEARER else passwords
        named = {"sasl_username"} if wanted is passwords else set[str]()
        self._refuse(given - wanted - named, f"sasl_mechanism is {self.sasl_mechanism}")
        if named - given:
            raise ConfigInvalid(f"sasl_username: {self.sasl_mechanism} wants one")
        if len(given & wanted) != 1:
            got = " and ".join(sorted(given & wanted)) or "none"
            names = ", ".join(sorted(wanted))
            raise ConfigInvalid(f"{self.sasl_mechanism} wants one of {names}, got {got}")

    def _check_tls(self) -> None:
        if not self.is_encrypted:
            given = self._given("ssl_", but=("ssl_endpoint_identification_algorithm",))
            self._refuse(given, f"security_protocol is {self.security_protocol}")
        for name in ("ssl_key_location", "ssl_key_password_file"):
            if getattr(self, name) and not self.ssl_certificate_location:
                raise ConfigInvalid(f"{name}: it wants an ssl_certificate_location")

    def _given(self, prefix: str, but: tuple[str, ...]) -> set[str]:
        return {
            name
            for name, _, value, default in rows_of(self)
            if name.startswith(prefix) and name not in but and value != default
        }

    def _refuse(self, names: set[str], why: str) -> None:
        """A setting that is not used is a mistake: its owner believes that it protects."""
        if names:
            raise ConfigInvalid(f"{', '.join(sorted(names))}: not used, because {why}")


def of_pairs(pairs: Iterable[str], prefix: str = "") -> SecurityConfig:
    """From a command line, as in `security.protocol=SASL_SSL`. `prefix` is for errors."""
    known = {
        each.name.replace("_", "."): each.name
        for each in fields(SecurityConfig)
        if each.name != "sasl_oauthbearer_token"
    }
    given: dict[str, Any] = {}
    for pair in pairs:
        name, _, text = pair.partition("=")
        if name not in known:
            raise ConfigInvalid(f"{prefix}{name}: wanted one of {', '.join(known)}")
        if name == PASSWORD:
            raise ConfigInvalid(
                f"{prefix}{PASSWORD}: everybody on the machine can read a command line, use "
                f"{PASSWORD}.file or {PASSWORD}.env"
            )
        if known[name] in given:
            raise ConfigInvalid(f"{prefix}{name}: given twice, wanted once")
        given[known[name]] = text
    try:
        return SecurityConfig(**given)
    except ConfigInvalid as error:
        raise ConfigInvalid(f"{prefix}{error}") from error


def secret_in(name: str, path: str) -> str:
    try:
        with Path(path).open("rb") as file:
            octets = file.read(SECRET_SIZE_MAX + 1)
        text = octets.decode()
    except OSError as error:
        raise ConfigInvalid(f"{name}: cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError:
        raise ConfigInvalid(f"{name}: {path} is not in UTF-8") from None  # the error has its bytes
    if len(octets) > SECRET_SIZE_MAX:
        raise ConfigInvalid(f"{name}: {path} has more than {SECRET_SIZE_MAX} bytes")
    secret = text.removesuffix("\n").removesuffix("\r")
    if not secret:
        raise ConfigInvalid(f"{name}: {path} is empty")
    return secret
