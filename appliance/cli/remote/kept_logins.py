"""Logins that `appliance login` keeps, for all other commands, in a file of the user's own.

    $XDG_CONFIG_HOME/appliance/logins.json   (~/.config without it), mode 0600

It has the secret of a session and never a password. The broker ends a session after eight hours
without use, after a week, and when it is started again.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from appliance.process import owner_only
from appliance.process.exit_codes import FAILED, Failed

NAME = "logins.json"


@dataclass(frozen=True)
class Login:
    url: str
    user: str
    secret: str
    ca_file: str = ""  # whom to trust; "": the system's authorities


@dataclass(frozen=True)
class KeptLogins:
    last: str = ""  # its URL: the broker of commands that name none
    all: tuple[Login, ...] = ()

    def of(self, url: str) -> Login | None:
        return next((each for each in self.all if each.url == url), None)

    def with_one(self, login: Login) -> KeptLogins:
        return KeptLogins(login.url, (*self.without(login.url).all, login))

    def without(self, url: str) -> KeptLogins:
        left = tuple(each for each in self.all if each.url != url)
        return replace(self, all=left, last="" if self.last == url else self.last)


def path_of(environment: Mapping[str, str] = os.environ) -> Path:
    told = environment.get("XDG_CONFIG_HOME", "")
    return (Path(told) if told else Path.home() / ".config") / "appliance" / NAME


def load() -> KeptLogins:
    """None at all, if there is no file."""
    path = path_of()
    try:
        with path.open(encoding="utf-8") as file:
            if stat.S_IMODE(os.fstat(file.fileno()).st_mode) & owner_only.UMASK:
                raise Failed(
                    f"{path}: others may read it, and it opens the broker: chmod 600 {path}, and "
                    "log in again",
                    FAILED,
                )
            told = json.load(file)
        return KeptLogins(told["last"], tuple(Login(**each) for each in told["logins"]))
    except FileNotFoundError:
        return KeptLogins()
    except OSError as error:
        raise Failed(f"{path}: {error.strerror}", FAILED) from error
    except (ValueError, KeyError, TypeError) as error:
        raise Failed(f"{path}: it is not as `appliance login` writes it: {error!r}; delete it, and "
                     "log in again", FAILED) from error  # fmt: skip


def store(kept: KeptLogins) -> Path:
    path = path_of()
    path.parent.mkdir(mode=owner_only.DIRECTORY_MODE, parents=True, exist_ok=True)
    told: dict[str, Any] = {"last": kept.last, "logins": [asdict(each) for each in kept.all]}
    new = path.with_suffix(".new")
    new.unlink(missing_ok=True)  # with whatever mode it had
    owner_only.write(new, json.dumps(told, indent=2).encode())
    new.replace(path)
    return path
