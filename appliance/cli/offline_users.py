"""Users in the data directory of a stopped broker, for `appliance user ... --data-dir`.

Whoever can write the directory can do this, because it holds all data of the broker. So the first
administrator of a machine without a browser is made here.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from appliance.access.user_rows import User, UserRows
from appliance.access.users import mechanisms_in_words
from appliance.admin import users
from appliance.catalog import catalog
from appliance.catalog.fact_rows import FactRows
from appliance.data_dir import data_format, durable_directories, log_files
from appliance.errors import ResourceUnknown
from appliance.machine.believed_time import wall_now_ms
from appliance.process import owner_only
from appliance.process.exit_codes import NOT_FOUND, REFUSED, Failed


class OfflineUsers:
    """The same calls as over REST."""

    def __init__(self, rows: UserRows, of_cluster: FactRows) -> None:
        self._rows, self._of_cluster = rows, of_cluster

    def all(self) -> list[dict[str, Any]]:
        credentials = self._rows.credentials()
        return [
            {
                "name": each.name,
                "role": each.role,
                "may_read": bool(each.may_read),
                "created_ms": each.created_ms,
                "sessions": 0,
                "kafka": mechanisms_in_words([one for one in credentials if one.user == each.name]),
            }
            for each in sorted(self._rows.users(), key=lambda each: each.name)
        ]

    def create(self, name: str, role: str, password: str, may_read: bool) -> None:
        self._of_cluster.note_changed_user(name)
        users.make_user(self._rows, name, role, password, may_read)

    def change(
        self, name: str, role: str | None, password: str | None, may_read: bool | None
    ) -> None:
        known = self._known(name)
        role = known.role if role is None else role
        reads = known.may_read if may_read is None else int(may_read)
        self._rows.change([replace(known, role=role, may_read=reads)])
        if password is not None:
            users.set_password(self._rows, name, password)

    def confirm(self, name: str) -> None:
        self._known(name)
        own = [each for each in self._rows.credentials() if each.user == name]
        self._rows.change(credentials=[replace(each, is_confirmed=1) for each in own])

    def delete(self, name: str) -> None:
        self._known(name)
        self._rows.change(deleted={name: wall_now_ms()})

    def _known(self, name: str) -> User:
        """To be changed."""
        found = {each.name: each for each in self._rows.users()}
        if name not in found:
            there = ", ".join(found) or "none: make one with `appliance user create`"
            raise ResourceUnknown(f"there is no user {name[:80]!r}; there are: {there}")
        self._of_cluster.note_changed_user(name)
        return found[name]


@contextmanager
def offline_users(directory: Path, *, makes: bool = False) -> Iterator[OfflineUsers]:
    """`makes` the directory where there is none yet: the broker's first start comes later."""
    path = directory / catalog.NAME
    if makes:
        durable_directories.make(directory)
        owner_only.tighten(directory)
    elif not path.exists():
        raise Failed(f"{path} does not exist; --data-dir names the broker's directory", NOT_FOUND)
    try:
        data_format.check(directory)
        with log_files.held(directory):
            opened = catalog.Catalog.open(path)
            try:
                yield OfflineUsers(UserRows(opened), FactRows(opened))
            finally:
                opened.close()
    except log_files.DirectoryInUse as error:
        raise Failed(
            f"{error}. Or leave --data-dir out, and the running broker does it: log in as an admin "
            "before (`appliance login`), and set a password that was lost by "
            "`appliance user change NAME --password`. If there is no admin yet, open the setup "
            "link that the broker printed at its start",
            REFUSED,
        ) from error
    except ResourceUnknown as error:
        raise Failed(str(error), NOT_FOUND) from error
