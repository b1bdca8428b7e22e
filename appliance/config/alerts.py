"""Alerts: by mail and by a webhook, how soon, and how often."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from appliance.config.addresses import NO_ADDRESS, Address
from appliance.config.names import NO_NAMES, Names
from appliance.config.setting import DAY_MS, SECOND_MS, Part, SettingInvalid, setting
from appliance.config.tls import NO_FILE

DEGRADED, FAILING = "degraded", "failing"
STARTTLS, TLS, PLAIN = "starttls", "tls", "none"


@dataclass(frozen=True)
class AlertsConfig(Part):
    level: str = setting(
        "alerts.level",
        DEGRADED,
        "What is told of: `degraded` and worse, or only what is failing.",
        choices=(DEGRADED, FAILING),
    )
    mail_server: Address = setting(
        "alerts.mail.server",
        NO_ADDRESS,
        "The mail server that alerts are given to, `mail.example:587`.",
        default_words="none: no mail is sent",
    )
    mail_security: str = setting(
        "alerts.mail.security",
        STARTTLS,
        "`starttls` (port 587), `tls` from the first byte (465), or `none` (25). Who is on the way "
        "of `none` reads everything, so there is no login with it but on loopback.",
        choices=(STARTTLS, TLS, PLAIN),
    )
    mail_from: str = setting(
        "alerts.mail.from",
        "",
        "The address that mail comes from. The server must accept it.",
        default_words="none",
    )
    mail_to: Names = setting(
        "alerts.mail.to",
        NO_NAMES,
        "Who gets mail.",
        default_words="none",
    )
    mail_user: str = setting(
        "alerts.mail.user",
        "",
        "By which name we log in to the mail server.",
        default_words="none: there is no login",
    )
    mail_password_file: Path = setting(
        "alerts.mail.password.file",
        NO_FILE,
        "A file with the password for the mail server in one line. Only its owner may read it "
        "(mode 0600).",
        default_words="none",
    )
    webhook_url: str = setting(
        "alerts.webhook.url",
        "",
        "Where alerts are sent as JSON by POST, `https://chat.example/hook`. Redirects are not "
        "followed. Everybody who sees the settings sees it.",
        default_words="none: nothing is posted",
    )
    webhook_url_file: Path = setting(
        "alerts.webhook.address.file",
        NO_FILE,
        "A file with that address in one line, where it is a secret itself. Only its owner may "
        "read it (mode 0600).",
        default_words="none",
    )
    webhook_secret_file: Path = setting(
        "alerts.webhook.secret.file",
        NO_FILE,
        "A file with a secret in one line, by which alerts are signed (HMAC-SHA256), so that the "
        "receiver knows whose they are. Only its owner may read it (mode 0600).",
        default_words="none: alerts are not signed",
    )
    ca_file: Path = setting(
        "alerts.ca.file",
        NO_FILE,
        "Certificates (PEM) that are trusted for mail server and webhook, for those of one's own "
        "authority.",
        default_words="those of the system",
    )
    begin_after_ms: int = setting(
        "alerts.begin.after.ms",
        30 * SECOND_MS,
        "How long something is wrong before it is told of. What is over sooner needs nobody.",
        minimum=0,
        maximum=DAY_MS,
    )
    end_after_ms: int = setting(
        "alerts.end.after.ms",
        300 * SECOND_MS,
        "How long it must be well again before its end is told of. What comes back sooner is the "
        "same alert. A scheduler of exports needs three minutes after a start.",
        minimum=0,
        maximum=DAY_MS,
    )
    interval_ms: int = setting(
        "alerts.interval.ms",
        60 * SECOND_MS,
        "Least time between two messages. What begins and ends meanwhile is in one.",
        minimum=0,
        maximum=DAY_MS,
    )
    timeout_ms: int = setting(
        "alerts.timeout.ms",
        30 * SECOND_MS,
        "How long one attempt to send may take.",
        minimum=100,
        maximum=600 * SECOND_MS,
    )
    backoff_ms: int = setting(
        "alerts.retry.backoff.ms",
        5 * SECOND_MS,
        "Time to the second attempt; it doubles with each, up to `alerts.retry.backoff.max.ms`.",
        minimum=10,
        maximum=DAY_MS,
    )
    backoff_max_ms: int = setting(
        "alerts.retry.backoff.max.ms",
        300 * SECOND_MS,
        "Most time between two attempts.",
        minimum=10,
        maximum=DAY_MS,
    )
    give_up_ms: int = setting(
        "alerts.retry.ms",
        DAY_MS,
        "How long an alert is tried. A day later whoever looks sees the console first.",
        minimum=SECOND_MS,
    )
    queue_max: int = setting(
        "alerts.queue.max",
        100,
        "Alerts that wait for one channel; above it the oldest is given up.",
        minimum=1,
        maximum=10_000,
    )
    kept_max: int = setting(
        "alerts.kept.max",
        1000,
        "Alerts that the console shows, the newest; each takes about a KiB of the catalog.",
        minimum=1,
        maximum=100_000,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.mails:
            self._check_mail()
        if self.webhook_url:
            check_url("alerts.webhook.url", self.webhook_url)
            if self.webhook_url_file != NO_FILE:
                raise SettingInvalid(
                    "alerts.webhook.address.file: got one, and alerts.webhook.url, too; wanted one"
                )

    def _check_mail(self) -> None:
        for name, found in (
            ("alerts.mail.from", self.mail_from), ("alerts.mail.to", str(self.mail_to))
        ):  # fmt: skip
            if not found:
                raise SettingInvalid(f"{name}: got nothing; alerts.mail.server wants it")
        for each in (self.mail_from, *self.mail_to.all):
            if not each.isprintable() or each.count("@") != 1 or " " in each:
                raise SettingInvalid(f"alerts.mail: got {each!r}, wanted NAME@HOST")
        if bool(self.mail_user) != (self.mail_password_file != NO_FILE):
            raise SettingInvalid(
                "alerts.mail.user: it goes with alerts.mail.password.file; wanted both or none"
            )
        if self.mail_user and self.mail_security == PLAIN and not self.mail_server.is_loopback:
            raise SettingInvalid(
                f"alerts.mail.security: got {PLAIN} with a login at {self.mail_server}: everybody "
                f"on the way could read the password; wanted {STARTTLS} or {TLS}"
            )

    @property
    def mails(self) -> bool:
        return self.mail_server != NO_ADDRESS

    @property
    def posts(self) -> bool:
        return bool(self.webhook_url) or self.webhook_url_file != NO_FILE


def check_url(name: str, url: str) -> None:
    """Its text is not told: it may be a secret."""
    try:
        found = urlsplit(url)
        is_fine = found.scheme in ("http", "https") and bool(found.hostname) and found.port != 0
    except ValueError:
        is_fine = False
    if not is_fine or not url.isprintable() or " " in url:
        raise SettingInvalid(f"{name}: got no URL, wanted https://HOST[:PORT]/...")
    if found.username or found.password:
        raise SettingInvalid(
            f"{name}: got a URL with a name or password; wanted one without, and "
            "alerts.webhook.secret.file for the receiver to know whose alerts they are"
        )
