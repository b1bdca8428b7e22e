"""Catalogs of older and newer builds: migrations, additions, and the copies before them."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from appliance.access.user_rows import Credential, User, UserRows, has_users
from appliance.catalog import catalog as module
from appliance.catalog.catalog import NAME, Catalog, CatalogFailed, copies
from appliance.catalog.schema import SCHEMA, format_of
from appliance.errors import ApplianceError, DataNewer
from appliance.topics.topic_rows import TopicRows
from tests.support.catalogs import ORDERS, of_clients, opened


def test_a_newer_versions_catalog_is_refused(tmp_path: Path) -> None:
    with opened(tmp_path) as catalog:
        catalog._database.execute(f"PRAGMA user_version = {len(SCHEMA) + 1}")
    before = (tmp_path / NAME).read_bytes()
    with pytest.raises(DataNewer) as error:
        Catalog.open(tmp_path / NAME)
    told = f"catalog.db: its schema has format {len(SCHEMA) + 1}, and this appliance knows up to"
    assert told in str(error.value)
    assert "a newer one wrote it. Nothing was changed. Install that version" in str(error.value)
    assert (tmp_path / NAME).read_bytes() == before


def test_the_list_of_steps_is_closed() -> None:
    """One more, and every build of this major refuses the catalog: a table is an addition. With the
    next major version of the data this number grows, and `format_of` with it."""
    assert len(SCHEMA) == 15
    assert format_of(len(SCHEMA)) == "1.0"


ADDED = {
    "volumes": "CREATE TABLE volumes (id TEXT PRIMARY KEY NOT NULL); "
    "INSERT INTO volumes SELECT 'of ' || name FROM topics",
    "places": "CREATE TABLE places (topic BLOB NOT NULL)",
}


def test_an_added_table_is_made_where_it_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(tmp_path) as catalog:
        TopicRows(catalog).put(ORDERS)
    monkeypatch.setattr(module, "ADDITIONS", ADDED)
    for _ in range(2):  # once
        with opened(tmp_path) as catalog:
            assert catalog.rows("SELECT * FROM volumes") == [("of orders",)]
            assert catalog.rows("SELECT * FROM places") == []
            assert catalog._pragma("user_version") == len(SCHEMA)
    assert copies(tmp_path) == [], "what was there was not changed"


def test_an_older_build_keeps_the_tables_that_it_does_not_know(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as newer:
        newer.setattr(module, "ADDITIONS", ADDED)
        with opened(tmp_path) as catalog:
            catalog.run("INSERT INTO places VALUES (x'07')", ())
    with opened(tmp_path) as catalog:
        TopicRows(catalog).put(ORDERS)
    monkeypatch.setattr(module, "ADDITIONS", ADDED)
    with opened(tmp_path) as catalog:
        assert catalog.rows("SELECT * FROM places") == [(b"\x07",)]
        assert TopicRows(catalog).all() == [ORDERS]


def at_schema(folder: Path, schema: int, patch: pytest.MonkeyPatch) -> None:
    with patch.context() as older:
        older.setattr(module, "SCHEMA", SCHEMA[:schema])
        with opened(folder) as catalog:
            TopicRows(catalog).put(ORDERS)


def test_a_catalog_is_copied_before_its_tables_are_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_schema(tmp_path, 13, monkeypatch)
    with opened(tmp_path):
        pass
    (copy,) = copies(tmp_path)
    assert (copy.name, copy.stat().st_mode & 0o777) == ("catalog.0.13.db", 0o600)
    # it takes the place of the catalog, for the build that wrote it
    copy.replace(tmp_path / NAME)
    with monkeypatch.context() as older:
        older.setattr(module, "SCHEMA", SCHEMA[:13])
        with opened(tmp_path) as catalog:
            assert TopicRows(catalog).all() == [ORDERS]
            assert catalog._pragma("user_version") == 13


def test_the_last_three_copies_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for schema in range(9, 14):
        (tmp_path / NAME).unlink(missing_ok=True)
        at_schema(tmp_path, schema, monkeypatch)
        with opened(tmp_path):
            pass
    assert [each.name for each in copies(tmp_path)] == [
        f"catalog.0.{schema}.db" for schema in (11, 12, 13)
    ]


def test_a_catalog_that_cannot_be_copied_is_not_migrated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_schema(tmp_path, 13, monkeypatch)
    (tmp_path / "catalog.0.13.db").mkdir()
    with pytest.raises(CatalogFailed, match="is not migrated, as it cannot be copied to"):
        Catalog.open(tmp_path / NAME)
    with sqlite3.connect(tmp_path / NAME) as database:
        assert database.execute("PRAGMA user_version").fetchone() == (13,)
    database.close()


def test_an_older_schema_is_taken_to_the_newest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(tmp_path) as catalog:
        TopicRows(catalog).put(ORDERS)
        cluster_id = catalog.cluster_id
    more = [*SCHEMA, "ALTER TABLE topics ADD COLUMN owner TEXT; UPDATE topics SET owner = 'x'"]
    monkeypatch.setattr(module, "SCHEMA", more)
    for _ in range(2):
        with opened(tmp_path) as catalog:
            assert catalog.rows("SELECT name, owner FROM topics") == [("orders", "x")]
            assert (catalog.cluster_id, catalog._pragma("user_version")) == (
                cluster_id, len(more))


def test_a_catalog_from_before_quotas_gets_room_for_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(module, "SCHEMA", SCHEMA[:1])
        with opened(tmp_path) as catalog:
            TopicRows(catalog).put(ORDERS)
    with opened(tmp_path) as catalog:
        assert (TopicRows(catalog).all(), of_clients(catalog).all()) == ([ORDERS], {})


def test_a_migration_that_fails_leaves_the_old_schema(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(tmp_path) as catalog:
        TopicRows(catalog).put(ORDERS)
    with monkeypatch.context() as patch:
        patch.setattr(module, "SCHEMA", [*SCHEMA, "DELETE FROM topics; SELECT none FROM nowhere"])
        with pytest.raises(ApplianceError, match="no such table"):
            Catalog.open(tmp_path / NAME)
    with opened(tmp_path) as catalog:
        assert TopicRows(catalog).all() == [ORDERS]


def test_users_of_before_become_one_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever reached the port could write credentials: they wait for an administrator, and those
    with the name of a user of the console are gone."""
    before = next(i for i, step in enumerate(SCHEMA) if "CREATE TABLE users" in step)
    with monkeypatch.context() as patch:
        patch.setattr(module, "SCHEMA", SCHEMA[:before])
        with opened(tmp_path) as catalog:
            for each in ("ann", "bob"):
                catalog.run("INSERT INTO scram VALUES (?, 1, x'01', x'02', x'03', 4096)", (each,))
            catalog.run("INSERT INTO admin_users VALUES ('ann', 'admin', 'hash', 7, 0)", ())
        assert has_users(tmp_path / NAME)
    with opened(tmp_path) as catalog:
        ann, bob = UserRows(catalog).users()
        assert ann == User("ann", "admin", "hash", 7, 0)
        assert (bob.name, bob.role, bob.password_hash) == ("bob", "none", "")
        assert bob.created_ms > 1_700_000_000_000
        waiting = Credential("bob", 1, b"\x01", b"\x02", b"\x03", 4096, is_confirmed=0)
        assert UserRows(catalog).credentials() == [waiting]
    assert has_users(tmp_path / NAME)
