"""Clients at the data plane: threads, memory, connections, fetches, quotas."""

from __future__ import annotations

from dataclasses import dataclass

from appliance.config.setting import KIB, MIB, NO_LIMIT, SECOND_MS, Part, setting


@dataclass(frozen=True)
class NetworkConfig(Part):
    """What the data plane allows its clients."""

    network_threads: int = setting(
        "num.network.threads",
        2,
        "Threads that serve connections. One keeps up with a SATA RAID or a 10 GbE line; the "
        "second keeps a busy connection from delaying the others.",
        minimum=1,
        maximum=64,
    )
    disk_threads: int = setting(
        "fetch.disk.threads",
        4,
        "Threads that read from the disk what the page cache lacks, so that network threads do "
        "not wait for it. One per disk of an array keeps them busy.",
        minimum=1,
        maximum=64,
    )
    request_max_bytes: int = setting(
        "socket.request.max.bytes",
        100 * MIB,
        "Largest request; a larger claim closes the connection before anything is allocated.",
        minimum=KIB,
        maximum=2**31 - 16,
    )
    control_max_bytes: int = setting(
        "control.request.max.bytes",
        2 * MIB,
        "Largest request other than Produce and Fetch. As objects a request takes up to 35 times "
        "its bytes, and 300 ms a MiB to decode.",
        minimum=KIB,
        maximum=2**31 - 16,
    )
    queued_max_bytes: int = setting(
        "queued.max.request.bytes",
        256 * MIB,
        "Memory of requests that arrive, are appended, or wait for the control plane, of all "
        "connections together. Beyond it sockets are not read: clients wait, and nothing is lost.",
        minimum=MIB,
    )
    held_max_bytes: int = setting(
        "queued.max.response.bytes",
        256 * MIB,
        "Memory for responses that clients do not read, of all connections together. Beyond it "
        "connections above their share are closed: a small request can have a large response.",
        minimum=MIB,
    )
    max_connections: int = setting(
        "max.connections.total",
        10_000,
        "Connections at a time: each takes a few KiB and a file descriptor. More are closed. Half "
        "of the system's descriptors are for the logs, so the limit may be lower: see File "
        "descriptors.",
        minimum=1,
    )
    connections_taken_max: int = setting(
        "max.connections",
        NO_LIMIT,
        "Connections at a time, as many as are of use. More wait to be accepted until one ends. "
        "With `listener.name.<name>.` in front it is for one listener, beside the number for all, "
        "and others go on. No other broker connects here, so none is let in beyond it and no other "
        "closed for it, as Kafka does for brokers. May change at run time.",
        minimum=1,
        maximum=NO_LIMIT,
        default_words="no limit",
        of_listener=True,
    )
    connection_creation_rate_max: int = setting(
        "max.connection.creation.rate",
        NO_LIMIT,
        "Connections that are accepted in a second. More wait until it is their turn; what is "
        "accepted in `quota.window.size.seconds` may come at once. With `listener.name.<name>.` in "
        "front it is for one listener, beside the rate of all, and others go on. Connections that "
        "another limit refuses do not count. May change at run time.",
        minimum=1,
        maximum=NO_LIMIT,
        default_words="no limit",
        of_listener=True,
    )
    max_connections_per_ip: int = setting(
        "max.connections.per.ip",
        10_000,
        "Connections of one address, of IPv6 of one network of 64 bits, so that one broken client "
        "cannot take them all.",
        minimum=1,
    )
    connections_percent_per_ip: int = setting(
        "max.connections.percent.per.ip",
        50,
        "Largest share of the allowed connections for one address, of IPv6 for one network of 64 "
        "bits, also if file descriptors allow fewer: others can still connect. 100 is for a broker "
        "behind a proxy, or one that only its own machine uses with thousands of connections.",
        unit="percent",
        minimum=1,
        maximum=100,
    )
    max_handshakes: int = setting(
        "ssl.max.handshakes.total",
        1000,
        "Handshakes of TLS that are under way at a time. One takes a thread up to two ms, and who "
        "only begins them takes memory. The next is refused, and its client tries again.",
        minimum=1,
    )
    max_handshakes_per_ip: int = setting(
        "ssl.max.handshakes.per.ip",
        200,
        "Handshakes of one address, of IPv6 of one network of 64 bits, that are under way, so that "
        "others still get in.",
        minimum=1,
    )
    handshake_timeout_ms: int = setting(
        "ssl.handshake.timeout.ms",
        10 * SECOND_MS,
        "How long a handshake may take, from the connection on.",
        minimum=100,
        maximum=120 * SECOND_MS,
    )
    requests_per_connection: int = setting(
        "connection.max.requests",
        1024,
        "Requests of one connection in flight; beyond it the connection is not read.",
        minimum=1,
        maximum=1_000_000,
    )
    control_requests_per_connection: int = setting(
        "connection.max.control.requests",
        64,
        "Of these, how many may wait for the control plane: their responses can be large, and "
        "clients send a few at a time.",
        minimum=1,
        maximum=1_000_000,
    )
    login_max_bytes: int = setting(
        "sasl.server.max.receive.size",
        64 * KIB,
        "Largest request of a connection that has not logged in. Anybody can send one, and no "
        "mechanism served here needs more: a token of OAUTHBEARER has a few KiB. Kafka's 512 KiB "
        "leave room for Kerberos.",
        minimum=KIB,
        maximum=2**31 - 16,
    )
    login_timeout_ms: int = setting(
        "connection.login.timeout.ms",
        10 * SECOND_MS,
        "How long a client may take to log in, from the connection to the end of the login. Then "
        "it is closed: a connection that nobody answers for takes one from those who log in.",
        minimum=100,
    )
    decisions_max: int = setting(
        "authorizer.max.decisions",
        200_000,
        "Decisions about rights that are kept for Produce, Fetch and ListOffsets, each of one "
        "principal, address and topic, in about 150 bytes. Beyond it those that are least used "
        "are made again.",
        minimum=2_000,
    )
    idle_timeout_ms: int = setting(
        "connections.max.idle.ms",
        600 * SECOND_MS,
        "An idle connection is closed after this long.",
        minimum=100,
    )
    frame_timeout_ms: int = setting(
        "connection.frame.timeout.ms",
        30 * SECOND_MS,
        "How long a request may take to arrive, plus the time of its bytes at the rate below. "
        "Then its connection is closed, because it takes memory.",
        minimum=100,
    )
    frame_min_bytes_per_second: int = setting(
        "connection.frame.bytes.per.second",
        4 * KIB,
        "The slowest connection for large requests. An occasional byte must not keep the memory "
        "of a large request for hours.",
        unit="bytes",
        minimum=1,
    )
    send_timeout_ms: int = setting(
        "connection.send.timeout.ms",
        60 * SECOND_MS,
        "A client that reads nothing of its response for this long is closed.",
        minimum=100,
    )
    fetch_max_bytes: int = setting(
        "fetch.max.bytes",
        55 * MIB,
        "Largest response of a fetch, whatever the client requests (but always at least one "
        "batch).",
        minimum=KIB,
        maximum=2**31 - 16,
    )
    fetch_max_partitions: int = setting(
        "fetch.max.partitions",
        20_000,
        "Partitions in one fetch or fetch session: all are checked whenever one of them gets "
        "records.",
        minimum=1,
    )
    fetch_max_partitions_all: int = setting(
        "fetch.max.total.partitions",
        1_000_000,
        "Partitions in the sessions and waiting fetches of all connections; each takes about 300 "
        "bytes. Beyond it there are no new sessions and no waits: fetches get a response at once.",
        minimum=1,
    )
    sendfile_min_bytes: int = setting(
        "fetch.sendfile.min.bytes",
        64 * KIB,
        "A range of this size or more goes from the page cache by sendfile; a smaller one is "
        "copied into the response, which saves calls.",
        minimum=0,
    )
    quota_window_s: int = setting(
        "quota.window.size.seconds",
        1,
        "What a client may use at once after a pause, in seconds of its rate. A longer window "
        "allows bursts; Kafka's ten windows make it 10.",
        minimum=1,
        maximum=3600,
    )
    drain_timeout_ms: int = setting(
        "shutdown.drain.timeout.ms",
        5 * SECOND_MS,
        "How long a stop waits for pending responses.",
        minimum=0,
    )
