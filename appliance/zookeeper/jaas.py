"""Logins by SASL at a ZooKeeper of ours: what a JAAS file wants of its settings.

    QuorumServer, QuorumLearner   the servers of an ensemble log in to each other, all of them
    Server                        clients may log in

Java reads the file, which has the passwords: `org.apache.zookeeper.server.auth.DigestLoginModule`
(DIGEST-MD5), or Kerberos's.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from appliance.errors import ApplianceError

SECTION = re.compile(r"^\s*(\w+)\s*\{", re.MULTILINE)
COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
QUORUM = ("QuorumServer", "QuorumLearner")
CLIENTS = "Server"
AMONG_SERVERS = {
    "quorum.auth.enableSasl": "true",
    "quorum.auth.learnerRequireSasl": "true",
    "quorum.auth.serverRequireSasl": "true",
}
OF_CLIENTS = {"authProvider.sasl": "org.apache.zookeeper.server.auth.SASLAuthenticationProvider"}
# From ZooKeeper 3.9 on it is, and DIGEST-MD5 is not to be had then.
OF_BOTH = {"fips-mode": "false"}


class JaasInvalid(ApplianceError):
    """No message shows the content, which has passwords."""


def settings_of(file: Path) -> Mapping[str, str]:
    """Of ZooKeeper. JaasInvalid: it is none, or has half of what an ensemble wants."""
    try:
        text = COMMENT.sub("", file.read_text("utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise JaasInvalid(f"{file}: {getattr(error, 'strerror', 'no UTF-8')}") from error
    found = {*SECTION.findall(text)}
    among = found.intersection(QUORUM)
    if not found.intersection((*QUORUM, CLIENTS)) or len(among) == 1:
        raise JaasInvalid(
            f"{file}: got the sections {', '.join(sorted(found)) or 'none'}; wanted {CLIENTS}, for "
            f"logins of clients, or {' and '.join(QUORUM)}, of servers, or all three"
        )
    own = {**(AMONG_SERVERS if among else {}), **(OF_CLIENTS if CLIENTS in found else {})}
    return {**OF_BOTH, **own}


def flag_of(file: Path) -> str:
    """Of Java."""
    return f"-Djava.security.auth.login.config={file.resolve()}"
