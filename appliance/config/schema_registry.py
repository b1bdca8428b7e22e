"""A schema registry: where the schemas of records are looked up, to show records decoded."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from appliance.config.oidc import LOOPBACK
from appliance.config.setting import SECOND_MS, Part, SettingInvalid, setting
from appliance.config.tls import NO_FILE

URL = "schema.registry.url"


@dataclass(frozen=True)
class SchemaRegistryConfig(Part):
    url: str = setting(
        URL,
        "",
        "The schema registry by whose schemas the console, REST and `appliance consume` decode "
        "records: one with Confluent's API, `https://registry.example:8081`, or Apicurio's, "
        "`http://HOST:8080/apis/ccompat/v7`. Redirects are not followed.",
        default_words="none",
    )
    user: str = setting(
        "schema.registry.user",
        "",
        "By which name this broker logs in to the registry (Basic).",
        default_words="none: there is no login",
    )
    password_file: Path = setting(
        "schema.registry.password.file",
        NO_FILE,
        "A file with the password for it in one line. Only its owner may read it (mode 0600).",
        default_words="none",
    )
    ca_file: Path = setting(
        "schema.registry.ca.file",
        NO_FILE,
        "Certificates (PEM) that are trusted for the registry, for that of one's own authority.",
        default_words="those of the system",
    )
    timeout_ms: int = setting(
        "schema.registry.timeout.ms",
        5 * SECOND_MS,
        "How long the registry may take for one schema and all that it refers to. A page waits a "
        "second at most; what comes later is there for the next look.",
        minimum=100,
        maximum=60 * SECOND_MS,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if bool(self.user) != (self.password_file != NO_FILE):
            raise SettingInvalid(
                "schema.registry.user: it goes with schema.registry.password.file; wanted both or "
                "none"
            )
        if ":" in self.user or not self.user.isprintable():
            raise SettingInvalid("schema.registry.user: a name for Basic has no colon in it")
        if self.is_on:
            self._check_url()

    @property
    def is_on(self) -> bool:
        return bool(self.url)

    def _check_url(self) -> None:
        try:
            found = urlsplit(self.url)
            is_fine = found.scheme in ("http", "https") and bool(found.hostname) and found.port != 0
        except ValueError:
            is_fine = False
        if not is_fine or not self.url.isprintable() or any(each in self.url for each in " ?#"):
            raise SettingInvalid(f"{URL}: got no URL, wanted https://HOST[:PORT][/PATH]")
        if found.username or found.password:
            raise SettingInvalid(
                f"{URL}: got a URL with a name or password; wanted one without, and "
                "schema.registry.user with schema.registry.password.file"
            )
        if self.user and found.scheme == "http" and found.hostname not in LOOPBACK:
            raise SettingInvalid(
                f"{URL}: got http:// with a login at {found.hostname}: everybody on the way could "
                "read the password; wanted https://"
            )
