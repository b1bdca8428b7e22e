"""Rules from before enforcement wait for an administrator, over restarts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from appliance.access.acl_rows import AclRows
from appliance.access.acls import (
    ANY,
    EVERY,
    Acl,
    AclFilter,
    Acls,
    Operation,
    PatternType,
    PermissionType,
    ResourceType,
)
from appliance.access.authorizer import Authorizer
from appliance.access.kept_per_address import Kept
from appliance.access.principal import Principal
from appliance.catalog.catalog import NAME, Catalog
from appliance.catalog.facts import Facts
from appliance.config import KeptConfig
from appliance.process.detached_tasks import Changes

ANN = Principal("User", "ann")
ON_A, ON_B = (
    Acl(ResourceType.TOPIC, name, PatternType.LITERAL, "User:ann", "*", Operation.READ,
        PermissionType.ALLOW)
    for name in "ab"
)  # fmt: skip
OF_A = AclFilter(ANY, "a", ANY, None, None, ANY, ANY)


class Life:
    """From a start to a stop."""

    def __init__(self, catalog: Catalog, is_enforced: bool) -> None:
        self.rows = AclRows(catalog)
        if is_enforced:
            self.rows.begin_enforcement(now_ms=17)
        self.kept = Kept.of_entities(KeptConfig())
        self.acls = Acls(self.rows, Facts(Changes()), self.kept, is_enforced)
        self.authorizer = Authorizer(is_enforced)
        self.acls.on_change(self.authorizer.change)

    def may(self, name: str) -> bool:
        return self.authorizer.allows(ANN, "", Operation.READ, ResourceType.TOPIC, name)

    @property
    def told(self) -> tuple[list[Acl], list[Acl], bool, bool]:
        """What is in force, what waits, and what comes of it."""
        return self.acls.find(EVERY), self.acls.waiting(), self.may("a"), self.may("b")


Live = Callable[..., Any]


@pytest.fixture
def live(tmp_path: Path) -> Live:
    def one(is_enforced: bool, use: Callable[[Life], Coroutine[Any, Any, Any]]) -> Any:
        catalog = Catalog.open(tmp_path / NAME)
        try:
            return asyncio.run(use(Life(catalog, is_enforced)))
        finally:
            catalog.close()

    return one


async def create_both(life: Life) -> None:
    assert await life.acls.create([ON_A, ON_B]) == [None, None]


async def look(life: Life) -> Any:
    return life.told


def test_a_rule_from_before_enforcement_decides_nothing(live: Live) -> None:
    live(False, create_both)
    assert live(False, look) == ([ON_A, ON_B], [], True, True)
    assert live(True, look) == ([], [ON_A, ON_B], False, False)
    assert live(True, look) == ([], [ON_A, ON_B], False, False)


def test_what_is_confirmed_decides_from_then_on_and_what_is_dropped_is_gone(live: Live) -> None:
    async def decide(life: Life) -> Any:
        assert await life.acls.confirm(OF_A) == [ON_A]
        assert life.told == ([ON_A], [ON_B], True, False)
        before = len(life.kept)
        assert await life.acls.drop(EVERY) == [ON_B]
        assert len(life.kept) == before - 1
        return life.told

    live(False, create_both)
    assert live(True, decide) == ([ON_A], [], True, False)
    assert live(True, look) == ([ON_A], [], True, False)
    assert live(False, look)[0] == [ON_A]


def test_what_was_written_while_enforcement_was_off_again_waits_too(live: Live) -> None:
    async def create_one(life: Life) -> None:
        await life.acls.create([ON_A])

    live(True, create_one)
    live(False, create_both)
    assert live(True, look) == ([ON_A], [ON_B], True, False)


def test_who_writes_a_waiting_rule_again_confirms_it(live: Live) -> None:
    async def again(life: Life) -> Any:
        before = len(life.kept)
        assert await life.acls.create([ON_A]) == [None]
        assert len(life.kept) == before
        return life.told

    live(False, create_both)
    assert live(True, again) == ([ON_A], [ON_B], True, False)
    assert live(True, look) == ([ON_A], [ON_B], True, False)


def test_a_rule_that_waits_is_not_deleted_with_those_in_force(live: Live) -> None:
    async def delete(life: Life) -> Any:
        assert await life.acls.delete([EVERY]) == [[]]
        return life.told

    live(False, create_both)
    assert live(True, delete) == ([], [ON_A, ON_B], False, False)


def test_the_first_time_of_enforcement_is_kept(live: Live) -> None:
    async def since(life: Life) -> int | None:
        return life.rows.enforced_since_ms()

    async def later(life: Life) -> int | None:
        life.rows.begin_enforcement(now_ms=99)
        return life.rows.enforced_since_ms()

    assert live(False, since) is None
    assert live(True, since) == 17
    assert live(True, later) == 17
    assert live(False, since) == 17
