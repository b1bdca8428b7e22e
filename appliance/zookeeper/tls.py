"""TLS on the connection to ZooKeeper.

kazoo reads the files again for each connection, and says nothing of one that fails: it tries on.
So the files are tried at the start, and what keeps us away is looked at by a handshake of our own.
"""

from __future__ import annotations

import socket
import ssl
from typing import Any

from appliance.config import NO_FILE, SettingInvalid, ZooKeeperConfig
from appliance.process.tls_client import explained

TIMEOUT_S = 2.0


def tls_of(config: ZooKeeperConfig) -> dict[str, Any]:
    """What kazoo wants to know. SettingInvalid: a file cannot be used."""
    if not config.has_tls:
        return {}
    context_of(config)
    keystore = None if config.keystore == NO_FILE else str(config.keystore)
    return {
        "use_ssl": True,
        "check_hostname": True,
        "ca": None if config.truststore == NO_FILE else str(config.truststore),
        "certfile": keystore,
        "keyfile": keystore,
    }


def context_of(config: ZooKeeperConfig) -> ssl.SSLContext:
    context = ssl.create_default_context()
    for name, path, load in (
        ("zookeeper.ssl.truststore.location", config.truststore, context.load_verify_locations),
        ("zookeeper.ssl.keystore.location", config.keystore, context.load_cert_chain),
    ):
        if path == NO_FILE:
            continue
        try:
            load(path)
        except ssl.SSLError as error:
            raise SettingInvalid(
                f"{name}: {path}: {error.reason or error}; wanted it in PEM"
            ) from error
        except OSError as error:
            raise SettingInvalid(f"{name}: {path}: {error.strerror}") from error
    return context


def trouble_with(config: ZooKeeperConfig) -> str:
    """Why TLS does not come about; "": it is something else."""
    if not config.has_tls:
        return ""
    server = config.ensemble.servers[0]
    try:
        with (
            socket.create_connection((server.host, server.port), TIMEOUT_S) as plain,
            context_of(config).wrap_socket(plain, server_hostname=server.host),
        ):
            return ""
    except OSError as error:
        why = explained(error) or str(error)
        return f"{server}: {why}"
