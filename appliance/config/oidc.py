"""Logins to the admin pages at a service (OpenID Connect)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from appliance.config.names import NO_NAMES, Names
from appliance.config.setting import Part, SettingInvalid, setting
from appliance.config.tls import NO_FILE

BACK = "/api/v1/login/oidc/back"
LOOPBACK = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True)
class OidcConfig(Part):
    issuer: str = setting(
        "admin.oidc.issuer",
        "",
        "The service at which people may log in to the admin pages, as `https://id.example`. It "
        "publishes where its parts are below that, in `/.well-known/openid-configuration`.",
        default_words="none",
    )
    client_id: str = setting(
        "admin.oidc.client.id",
        "",
        "By which name the service knows these pages. Its tokens must be for this name.",
        default_words="none",
    )
    client_secret_file: Path = setting(
        "admin.oidc.client.secret.file",
        NO_FILE,
        "A file with one line, what the service wants of these pages beside their name.",
        default_words="none, as of a public client",
    )
    redirect_url: str = setting(
        "admin.oidc.redirect.url",
        "",
        f"Where the service sends browsers back to: the admin pages' own address with `{BACK}` "
        "behind it. The service must know it.",
        default_words="none",
    )
    name_claim: str = setting(
        "admin.oidc.name.claim",
        "sub",
        "The claim that is the name of who logs in; `oidc:` is put in front of it. It has no "
        "rights of a user of that name.",
    )
    groups_claim: str = setting(
        "admin.oidc.groups.claim",
        "groups",
        "The claim with the groups of who logs in.",
    )
    viewers: Names = setting(
        "admin.oidc.viewer.groups",
        NO_NAMES,
        "Groups whose people are viewers. Who is in none of these groups is not let in.",
        default_words="none",
    )
    operators: Names = setting(
        "admin.oidc.operator.groups",
        NO_NAMES,
        "Groups whose people are operators.",
        default_words="none",
    )
    admins: Names = setting(
        "admin.oidc.admin.groups",
        NO_NAMES,
        "Groups whose people are admins.",
        default_words="none",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.is_on:
            return
        check_encrypted("admin.oidc.issuer", self.issuer)
        if not self.client_id:
            raise SettingInvalid("admin.oidc.client.id: got nothing; admin.oidc.issuer wants it")
        there = urlsplit(self.redirect_url)
        is_loopback = there.scheme == "http" and there.hostname in LOOPBACK
        if there.path != BACK or not (is_loopback or there.scheme == "https"):
            raise SettingInvalid(
                f"admin.oidc.redirect.url: got {self.redirect_url}, wanted https://NAME{BACK}, or "
                "http:// on loopback: who could read the answer on its way could log in with it"
            )

    @property
    def is_on(self) -> bool:
        return bool(self.issuer)


def check_encrypted(what: str, url: str) -> None:
    if not url.startswith("https://"):
        raise SettingInvalid(f"{what}: got {url[:200]}, wanted https://...")
