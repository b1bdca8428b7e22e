"""What a login is checked with, whether there is such a user or not."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from appliance.access import scram_keys
from appliance.access.user_rows import User, UserRows
from appliance.access.users import UserTable
from appliance.catalog.catalog import Catalog
from appliance.catalog.facts import Facts
from appliance.process.detached_tasks import Changes

SHA_256, SHA_512 = 1, 2


@pytest.fixture
def users(tmp_path: Path) -> Iterator[UserTable]:
    catalog = Catalog.open(tmp_path / "catalog")
    yield UserTable(UserRows(catalog), Facts(Changes()))
    catalog.close()


def put(users: UserTable, name: str, *kinds: tuple[int, int]) -> None:
    """With a credential of each mechanism and iteration count."""
    rows = [scram_keys.credential_of(name, mechanism, b"salt", b"key", count)
            for mechanism, count in kinds]  # fmt: skip
    asyncio.run(users.put(User(name), rows))


def kinds_of_strangers(users: UserTable) -> set[tuple[int, int]]:
    found = [users.to_check(f"stranger-{at}") for at in range(60)]
    return {(each.mechanism, each.iterations) for each in found}


def test_a_stranger_s_password_is_checked_like_that_of_some_user(users: UserTable) -> None:
    assert kinds_of_strangers(users) == {(SHA_256, scram_keys.ITERATIONS)}
    put(users, "ann", (SHA_512, 4096))
    assert kinds_of_strangers(users) == {(SHA_512, 4096)}
    put(users, "bob", (SHA_256, 8192), (SHA_512, 10_000))  # checked with the first
    assert kinds_of_strangers(users) == {(SHA_512, 4096), (SHA_256, 8192)}
    assert users.to_check("ann").mechanism == SHA_512
    asyncio.run(users.remove("ann", 0))
    assert kinds_of_strangers(users) == {(SHA_256, 8192)}


def test_a_stranger_is_checked_like_the_same_user_each_time(users: UserTable) -> None:
    put(users, "ann", (SHA_512, 4096))
    put(users, "bob", (SHA_256, 8192))
    for name in ("eve", "mallory"):
        assert users.to_check(name) == users.to_check(name)
        assert not scram_keys.fits(users.to_check(name), "key")
