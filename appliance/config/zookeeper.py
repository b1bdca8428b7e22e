"""The ZooKeeper of a cluster, or of registrations."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from appliance.config.addresses import NO_ENSEMBLE, Ensemble
from appliance.config.given_twice import given_twice
from appliance.config.names import NO_NAMES, Names
from appliance.config.setting import HOUR_MS, SECOND_MS, Part, SettingInvalid, setting
from appliance.config.tls import NO_FILE

CLUSTER = "cluster"  # of zookeeper.format
CERTIFICATE = "certificate"  # of zookeeper.auth.mechanism


@dataclass(frozen=True)
class ZooKeeperConfig(Part):
    """A ZooKeeper that makes brokers one cluster, or says where each is found."""

    ensemble: Ensemble = setting(
        "zookeeper.connect",
        NO_ENSEMBLE,
        "The ZooKeeper, with the path, whose brokers are one cluster, or in which this broker is "
        "to be found by clients of Kafka's original design (zookeeper.format).",
        default_words="none",
    )
    format: str = setting(
        "zookeeper.format",
        CLUSTER,
        "What the brokers of the path are to each other. cluster: all are one, whose topics have "
        "replicas; nodes are the JSON of Kafka 0.8 to 3.x. original and json: each is by itself, "
        "and is only to be found there, by host:port and number of partitions, or by that JSON.",
        choices=(CLUSTER, "original", "json"),
    )
    auth_file: Path = setting(
        "zookeeper.auth.file",
        NO_FILE,
        "A file with one line, user:password. The broker logs in with it by digest, and only this "
        "user may change its nodes. A file, so that no list of settings or processes shows it.",
        default_words="none",
    )
    auth_mechanism: str = setting(
        "zookeeper.auth.mechanism",
        "digest",
        "How the broker logs in to ZooKeeper. digest: with zookeeper.auth.file, if there is one. "
        "certificate: by the subject of the one in zookeeper.ssl.keystore.location, which is the "
        "same at all brokers of a cluster.",
        choices=("digest", CERTIFICATE),
    )
    may_show_secrets: bool = setting(
        "zookeeper.secrets.unprotected",
        False,
        "Whether a cluster may keep users' passwords (hashed), credentials and tokens in a "
        "ZooKeeper to which brokers do not log in (zookeeper.auth.mechanism): everybody who "
        "reaches it can read and change them then.",
    )
    has_tls: bool = setting(
        "zookeeper.ssl.client.enable",
        False,
        "Whether the broker speaks TLS with ZooKeeper. zookeeper.connect names its secure ports "
        "then, by names or addresses that are in their certificates.",
    )
    truststore: Path = setting(
        "zookeeper.ssl.truststore.location",
        NO_FILE,
        "A file in PEM with the authorities that signed ZooKeeper's certificates.",
        default_words="the system's authorities",
    )
    keystore: Path = setting(
        "zookeeper.ssl.keystore.location",
        NO_FILE,
        "A file in PEM with a certificate and its key that the broker shows to ZooKeeper. It is "
        "read again at each connection.",
        default_words="none",
    )
    session_timeout_ms: int = setting(
        "zookeeper.session.timeout.ms",
        6 * SECOND_MS,
        "How long a dead broker's nodes stay, and how long a broker may be disconnected before "
        "they are removed. ZooKeeper itself allows 2 to 20 of its ticks.",
        minimum=100,
        maximum=120 * SECOND_MS,  # a stop waits this long when a server does not even refuse
    )
    connection_timeout_ms: int = setting(
        "zookeeper.connection.timeout.ms",
        2 * SECOND_MS,
        "How long a start waits for ZooKeeper to confirm that its id is free. After that the "
        "broker serves, and registers once ZooKeeper is back.",
        minimum=1,
        maximum=HOUR_MS,
    )
    cluster_pages: Names = setting(
        "cluster.admin.urls",
        NO_NAMES,
        "Where the admin pages of other brokers of the path are, as 2=https://box2:8780, for the "
        "console's page of all of them.",
        default_words="at the host of their listener, and at this broker's admin port",
    )
    cluster_ca_file: Path = setting(
        "cluster.ca.file",
        NO_FILE,
        "Certificates (PEM) that are trusted for the admin pages of other brokers.",
        default_words="those of the system",
    )

    @property
    def is_cluster(self) -> bool:
        return self.ensemble != NO_ENSEMBLE and self.format == CLUSTER

    @property
    def has_login(self) -> bool:
        """Whether what it makes there is its own."""
        return self.auth_file != NO_FILE or self.auth_mechanism == CERTIFICATE

    def __post_init__(self) -> None:
        self._check_login()
        try:
            urls = [*map(url_of, self.cluster_pages.all)]
        except ValueError as error:
            told = f"got {str(error)!r}, wanted ID=http://HOST:PORT"
            raise SettingInvalid(f"cluster.admin.urls: {told}") from None
        if number := given_twice(str(each) for each, _ in urls):
            raise SettingInvalid(f"cluster.admin.urls: broker {number} is given twice, wanted once")

    def _check_login(self) -> None:
        if self.auth_mechanism != CERTIFICATE:
            return
        name = f"zookeeper.auth.mechanism: {CERTIFICATE}"
        if not self.has_tls or self.keystore == NO_FILE:
            raise SettingInvalid(
                f"{name} wants zookeeper.ssl.client.enable and zookeeper.ssl.keystore.location"
            )
        if self.auth_file != NO_FILE:
            raise SettingInvalid(f"{name}: got zookeeper.auth.file, too, wanted one of them")


def url_of(text: str) -> tuple[int, str]:
    """Of ID=URL. ValueError: it is none."""
    number, equals, url = text.partition("=")
    if not equals or not number.isdecimal() or not url.startswith(("http://", "https://")):
        raise ValueError(text)
    return int(number), url.rstrip("/")
