"""As whom a broker comes to ZooKeeper, by `zookeeper.auth.mechanism`.

    digest        user and password of a file, which go there as they are
    certificate   the subject of the certificate that it shows in TLS, which ZooKeeper looks at by
                  itself

What a broker makes there is for "whoever made it", and ZooKeeper puts the login in its place: so
all brokers of a cluster have the same user, or certificates with the same subject.

Not SASL: where a server of ZooKeeper ends in the middle of an exchange, kazoo takes that for a
refusal, and connects no more.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from appliance.config import NO_FILE, SettingInvalid, ZooKeeperConfig


def login_of(config: ZooKeeperConfig) -> Mapping[str, Any]:
    """What kazoo wants to know. SettingInvalid: the file cannot be used."""
    if config.auth_file == NO_FILE:
        return {}
    return {"auth_data": [("digest", credential_in(config.auth_file))]}


def credential_in(file: Path) -> str:
    """`user:password`. Error messages never show the content."""
    wanted = f"zookeeper.auth.file {file}: wanted one line, user:password"
    try:
        text = file.read_text("utf-8").strip()
    except UnicodeDecodeError:
        raise SettingInvalid(f"{wanted}; got no UTF-8") from None
    except OSError as error:
        raise SettingInvalid(f"{wanted}; got {error.strerror}") from error
    user, _, password = text.partition(":")
    if not user or not password or len(text.splitlines()) != 1:
        raise SettingInvalid(f"{wanted}; got {len(text.splitlines())} lines, none shown")
    return text
