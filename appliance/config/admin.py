"""Who may reach the admin pages, and what may be done there."""

from __future__ import annotations

from dataclasses import dataclass

from appliance.config.addresses import NO_HOSTS, Hosts
from appliance.config.setting import check_fields, setting


@dataclass(frozen=True)
class AdminConfig:
    """Who may reach the admin pages, and what may be done there."""

    hosts: Hosts = setting(
        "admin.hosts",
        NO_HOSTS,
        "Names by which browsers reach the admin pages, beside loopback and this machine's "
        "addresses. Others are refused: a page elsewhere could give itself a name that leads here.",
        default_words="none",
    )
    is_read_only: bool = setting(
        "admin.read.only",
        False,
        "Refuse every change over the admin pages, whoever asks for it.",
    )
    is_behind_tls: bool = setting(
        "admin.behind.tls",
        False,
        "A proxy in front of the admin pages speaks TLS, so browsers must send the session's "
        "cookie over it only.",
    )

    def __post_init__(self) -> None:
        check_fields(self)
