"""Who may reach the admin pages, and what may be done there."""

from __future__ import annotations

from dataclasses import dataclass

from appliance.config.addresses import NO_HOSTS, Hosts
from appliance.config.setting import DAY_MS, KIB, SECOND_MS, Part, setting

AUTO, ON, OFF = "auto", "on", "off"


@dataclass(frozen=True)
class AdminConfig(Part):
    hosts: Hosts = setting(
        "admin.hosts",
        NO_HOSTS,
        "Names of the admin pages for browsers, beside loopback and this machine's addresses. "
        "Others are refused: a foreign page could give itself a name that leads here.",
        default_words="none",
    )
    is_read_only: bool = setting(
        "admin.read.only",
        False,
        "Refuse every change over the admin pages.",
    )
    tls: str = setting(
        "admin.tls",
        AUTO,
        "Whether the admin port speaks TLS only, with the certificate of ssl.keystore.location. "
        "auto: if there is one, and admin.address is not loopback. Then nobody's password crosses "
        "a network as it is, and commands and proxies on this machine need no certificate.",
        choices=(AUTO, ON, OFF),
    )
    hsts_seconds: int = setting(
        "admin.hsts.max.age.seconds",
        365 * DAY_MS // SECOND_MS,
        "How long a browser that was here over TLS asks this host for nothing without TLS (HSTS): "
        "at no port, also not what other programs serve there. 0: it forgets.",
        minimum=0,
    )
    is_behind_tls: bool = setting(
        "admin.behind.tls",
        False,
        "A proxy in front of the admin pages speaks TLS, so browsers must send the session's "
        "cookie over it only. Who asks for bulk data is sent to https: the proxy serves that, too.",
    )
    connections_max: int = setting(
        "admin.max.connections.total",
        512,
        "Connections at the admin port at a time, and as many at that of bulk data. When there are "
        "as many, the one that has kept the broker waiting longest is closed for one more. Both "
        "ports get an eighth of the descriptors at most: see File descriptors.",
        minimum=8,
        maximum=10_000,
    )
    connections_per_ip: int = setting(
        "admin.max.connections.per.ip",
        256,
        "Connections of one address, of IPv6 of one network of 64 bits, at the admin port, and as "
        "many at that of bulk data. A browser has six, a Spark worker one for each task. Behind a "
        "proxy all come from one address.",
        minimum=1,
    )
    request_timeout_ms: int = setting(
        "admin.request.timeout.ms",
        10 * SECOND_MS,
        "How long the head of a request may take to arrive at the admin port or that of bulk data, "
        "and its body beside what its bytes take at 4 KiB a second.",
        minimum=100,
    )
    idle_timeout_ms: int = setting(
        "admin.idle.timeout.ms",
        75 * SECOND_MS,
        "A connection at one of the two ports without a request is closed after this long. Proxies "
        "close theirs after 60 s, and should be first.",
        minimum=100,
    )
    send_timeout_ms: int = setting(
        "admin.send.timeout.ms",
        60 * SECOND_MS,
        "Who takes none of an answer of the admin port for this long is closed, or of a plan. Who "
        "takes nothing of bulk data has ten minutes.",
        minimum=100,
    )
    stranger_body_max_bytes: int = setting(
        "admin.stranger.request.max.bytes",
        16 * KIB,
        "Largest body of a request that needs no login: names and passwords.",
        minimum=KIB,
        maximum=1024 * KIB,
    )
    streams_per_user: int = setting(
        "admin.streams.per.user",
        32,
        "Live pages and exports of messages that one user may have open: each page uses one or "
        "two.",
        minimum=1,
    )
    history_days: int = setting(
        "admin.history.days",
        30,
        "How long the console's charts reach back: a month shows what a day of the week, a month's "
        "end or a release changed. Of the last 6 hours there is a value each 10 s, of all a value "
        "an hour.",
        minimum=1,
        maximum=400,
    )
    history_series_max: int = setting(
        "admin.history.series.max",
        1000,
        "Numbers that are kept over time: some twenty of the broker, three of each topic and two "
        "of each group. Each takes about 40 KB of the disk in a month; what comes when all are "
        "taken has no history.",
        minimum=100,
        maximum=100_000,
    )
