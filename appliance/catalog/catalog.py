"""`catalog.db`: what the broker knows beside its logs, in SQLite.

The catalog decides whether a topic exists and how it is configured; the logs hold the records. A
method that changes something returns when the change is on disk (WAL, `synchronous=FULL`), or
raises and changed nothing.

Threads: any thread may call, a lock lets one in at a time, and a change takes a disk's sync. So
the control thread reads once at the start, and sends changes to a thread beside it.

    cluster         one row: id, when it was made, whether the topics found on disk were taken in
    topics          name, id, partitions, when it was made
    topic_configs   what was set for a topic; what was not has no row
    deletions       topics that are deleted, but whose directories may still be there
    broker_configs  what was set at run time, for this broker or as the default of all brokers
    group_configs   what was set for a consumer group, whether there is one or not
    producer_ids    one row: the first id that was never reserved
    acls            who may do what (`acls.py`)
    scram           what a password is proven with, never the password (`scram.py`)
    client_quotas   entity (as JSON), name and value of each quota (`client_quotas.py`)
    admin_users     who may use the admin pages, with the hash of the password
    admin_tokens    the same for programs, with the digest of the token
    topic_schemas   by what schema the admin pages show keys and values
    audit           who changed what over the admin pages; the oldest rows of who has most go
    client_metrics  configs of subscriptions to clients' metrics (`client_metrics.py`)
    export_holds    what retention keeps for an export (`export/holds.py`)
    exports         definitions of exports (`export/book.py`), as JSON
    export_runs     what became of them, as JSON; the oldest rows of each go
    ledger          what was lost or damaged, and who has seen it (`ledger.py`)
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
import uuid
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import astuple, dataclass, field, replace
from pathlib import Path
from typing import Any

from appliance.catalog import kafka_uuid
from appliance.errors import ApplianceError, StorageFull
from appliance.machine.page_cache import read_anew

NAME = "catalog.db"
APPLICATION_ID = 0x4170706C  # "Appl": tells our file from any other program's

AUDIT_MAX = 100_000  # rows of the audit trail: some 20 MB
AUDIT_STRANGERS_MAX = 10_000  # of these, of who was not logged in: 8 hours of the worst attack
STRANGER = "not logged in"  # in the trail; no user can have such a name
ADMIN_USERS_SINCE = 5  # the schema that has them
PRODUCER_IDS = 1000  # reserved at a time: a sync for each thousand, and a crash wastes no more

# Each entry takes the schema from its index to the next: `user_version` counts those applied. An
# entry that was ever released is never edited; a change is a new entry.
SCHEMA = [
    """
    CREATE TABLE cluster (
        one INTEGER PRIMARY KEY CHECK (one = 1),
        id TEXT NOT NULL,
        created_ms INTEGER NOT NULL,
        is_settled INTEGER NOT NULL CHECK (is_settled IN (0, 1))
    );
    CREATE TABLE topics (
        name TEXT PRIMARY KEY NOT NULL CHECK (length(name) BETWEEN 1 AND 249),
        id BLOB NOT NULL UNIQUE CHECK (typeof(id) = 'blob' AND length(id) = 16),
        partitions INTEGER NOT NULL CHECK (partitions > 0),
        created_ms INTEGER NOT NULL
    );
    CREATE TABLE topic_configs (
        topic TEXT NOT NULL REFERENCES topics (name) ON DELETE CASCADE,
        name TEXT NOT NULL,
        value TEXT NOT NULL,
        PRIMARY KEY (topic, name)
    );
    CREATE TABLE deletions (
        name TEXT PRIMARY KEY NOT NULL,
        id BLOB NOT NULL,
        partitions INTEGER NOT NULL
    );
    CREATE TABLE broker_configs (
        is_default INTEGER NOT NULL CHECK (is_default IN (0, 1)),
        name TEXT NOT NULL,
        value TEXT NOT NULL,
        PRIMARY KEY (is_default, name)
    );
    CREATE TABLE producer_ids (
        one INTEGER PRIMARY KEY CHECK (one = 1),
        next INTEGER NOT NULL CHECK (next >= 0)
    );
    INSERT INTO producer_ids VALUES (1, 0);
    """,
    """
    CREATE TABLE acls (
        resource_type INTEGER NOT NULL,
        resource_name TEXT NOT NULL,
        pattern_type INTEGER NOT NULL,
        principal TEXT NOT NULL,
        host TEXT NOT NULL,
        operation INTEGER NOT NULL,
        permission_type INTEGER NOT NULL,
        PRIMARY KEY (resource_type, resource_name, pattern_type, principal, host, operation,
                     permission_type)
    ) WITHOUT ROWID;
    CREATE TABLE scram (
        user TEXT NOT NULL,
        mechanism INTEGER NOT NULL,
        salt BLOB NOT NULL,
        stored_key BLOB NOT NULL,
        server_key BLOB NOT NULL,
        iterations INTEGER NOT NULL,
        PRIMARY KEY (user, mechanism)
    ) WITHOUT ROWID;
    CREATE TABLE client_quotas (
        entity TEXT NOT NULL,
        name TEXT NOT NULL,
        value REAL NOT NULL CHECK (value > 0),
        PRIMARY KEY (entity, name)
    ) WITHOUT ROWID;
    CREATE TABLE client_metrics (
        subscription TEXT NOT NULL,
        name TEXT NOT NULL,
        value TEXT NOT NULL,
        PRIMARY KEY (subscription, name)
    ) WITHOUT ROWID;
    """,
    """
    CREATE TABLE group_configs (
        group_id TEXT NOT NULL,
        name TEXT NOT NULL,
        value TEXT NOT NULL,
        PRIMARY KEY (group_id, name)
    );
    """,
    """
    CREATE TABLE audit (
        id INTEGER PRIMARY KEY,
        at_ms INTEGER NOT NULL,
        who TEXT NOT NULL,
        peer TEXT NOT NULL,
        action TEXT NOT NULL,
        details TEXT NOT NULL,
        status INTEGER NOT NULL
    );
    """,
    """
    CREATE TABLE admin_users (
        name TEXT PRIMARY KEY NOT NULL,
        role TEXT NOT NULL,
        password_hash TEXT NOT NULL,
        created_ms INTEGER NOT NULL
    );
    CREATE TABLE admin_tokens (
        name TEXT PRIMARY KEY NOT NULL,
        role TEXT NOT NULL,
        digest BLOB NOT NULL UNIQUE,
        created_ms INTEGER NOT NULL
    );
    """,
    """
    ALTER TABLE admin_users ADD COLUMN may_read INTEGER NOT NULL DEFAULT 1;
    ALTER TABLE admin_tokens ADD COLUMN may_read INTEGER NOT NULL DEFAULT 1;
    ALTER TABLE admin_tokens ADD COLUMN expires_ms INTEGER
    """,
    """
    CREATE TABLE export_holds (
        name TEXT PRIMARY KEY NOT NULL,
        topic TEXT NOT NULL,
        offsets TEXT NOT NULL,
        max_bytes INTEGER NOT NULL CHECK (max_bytes >= 0),
        put_ms INTEGER NOT NULL,
        released_ms INTEGER,
        why_released TEXT NOT NULL
    );
    CREATE TABLE exports (
        name TEXT PRIMARY KEY NOT NULL,
        definition TEXT NOT NULL
    );
    CREATE TABLE export_runs (
        export TEXT NOT NULL REFERENCES exports (name) ON DELETE CASCADE,
        id TEXT NOT NULL,
        state TEXT NOT NULL,
        started_ms INTEGER NOT NULL,
        run TEXT NOT NULL,
        PRIMARY KEY (export, id)
    );
    CREATE INDEX export_runs_by_time ON export_runs (export, started_ms)
    """,
    """
    CREATE TABLE topic_schemas (
        topic TEXT NOT NULL REFERENCES topics (name) ON DELETE CASCADE,
        part TEXT NOT NULL CHECK (part IN ('key', 'value')),
        form TEXT NOT NULL,
        text TEXT NOT NULL,
        message TEXT NOT NULL,
        updated_ms INTEGER NOT NULL,
        PRIMARY KEY (topic, part)
    )
    """,
    """
    CREATE TABLE ledger (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        at_ms INTEGER NOT NULL,
        topic TEXT NOT NULL,
        partition INTEGER NOT NULL,
        first_offset INTEGER NOT NULL,
        last_offset INTEGER,
        kind TEXT NOT NULL CHECK (kind IN ('lost', 'damaged', 'skipped')),
        cause TEXT NOT NULL,
        aside TEXT NOT NULL,
        acknowledged_ms INTEGER,
        acknowledged_by TEXT NOT NULL
    )
    """,
]


Run = Callable[..., sqlite3.Cursor]
Values = tuple[object, ...]  # of a row, in the order of its columns
# Runs changes one after the other, each to its end: for who keeps rows of the catalog in memory
Change = Callable[[Coroutine[Any, Any, Any]], Awaitable[Any]]


class CatalogUnusable(ApplianceError):
    """The start cannot go on; the text says what to do."""

    kafka_code = 56


class CatalogFailed(ApplianceError):
    """A change could not be made durable, and was not made."""

    kafka_code = 56


@dataclass(frozen=True)
class TopicRow:
    name: str
    id: uuid.UUID
    partitions: int
    configs: dict[str, str] = field(default_factory=dict)
    created_ms: int = 0


@dataclass(frozen=True)
class AuditRow:
    id: int  # 0: a new one
    at_ms: int
    who: str
    peer: str
    action: str
    details: str
    status: int


@dataclass(frozen=True)
class AdminUser:
    name: str
    role: str
    password_hash: str = field(repr=False)
    created_ms: int
    may_read: int = 1  # messages; 0: not


@dataclass(frozen=True)
class AdminToken:
    name: str
    role: str
    digest: bytes = field(repr=False)
    created_ms: int
    may_read: int = 1  # messages; 0: not
    expires_ms: int | None = None  # None: never


@dataclass(frozen=True)
class HoldRow:
    name: str
    topic: str
    offsets: str  # JSON: partition to offset
    max_bytes: int
    put_ms: int
    released_ms: int | None
    why_released: str


@dataclass(frozen=True)
class TopicSchema:
    topic: str
    part: str  # key, value
    form: str  # avro, protobuf
    text: str
    message: str  # of Protobuf: its name, or "" where there is one only
    updated_ms: int


@dataclass(frozen=True)
class LedgerRow:
    id: int  # 0: a new one
    at_ms: int
    topic: str
    partition: int
    first_offset: int
    last_offset: int | None
    kind: str
    cause: str
    aside: str
    acknowledged_ms: int | None
    acknowledged_by: str


def has_admin_users(path: Path) -> bool:
    """Whether anybody has a password for the admin pages, of a catalog that is not open yet. What
    cannot be read may hold some."""
    if not path.exists():
        return False
    try:
        database = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
        try:
            version = database.execute("PRAGMA user_version").fetchone()[0]
            if version < ADMIN_USERS_SINCE:
                return False
            return database.execute("SELECT 1 FROM admin_users LIMIT 1").fetchone() is not None
        finally:
            database.close()
    except sqlite3.Error:
        return True


class Catalog:
    """`open` is the constructor."""

    def __init__(self, database: sqlite3.Connection, path: Path) -> None:
        self.path = path
        self._database = database
        self._lock = threading.Lock()
        self._audit_counts: Counter[str] | None = None  # rows by person; None: not counted yet

    @classmethod
    def open(cls, path: Path) -> Catalog:
        """Makes the file when it is not there."""
        try:
            # SQLite gives its other files the same mode; passwords will be in here.
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        except OSError as error:
            raise CatalogUnusable(f"{path} cannot be opened: {error.strerror}") from error
        for each in (path, path.with_name(f"{path.name}-wal")):
            read_anew(each)
        database = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        catalog = cls(database, path)
        try:
            catalog._prepare()
        except (sqlite3.Error, ApplianceError) as error:
            database.close()
            if isinstance(error, ApplianceError):
                raise
            if "locked" in str(error):
                raise CatalogUnusable(f"{path}: another program has it open; end that") from error
            raise _unusable(path, str(error)) from error
        return catalog

    def _prepare(self) -> None:
        # Exclusive: the index of the write-ahead log is then kept in memory. As a mapped file it
        # would need room at the start, and there must be a start also on a full disk.
        self._database.execute("PRAGMA locking_mode = EXCLUSIVE")
        version = self._pragma("user_version")
        if version > len(SCHEMA):
            raise CatalogUnusable(
                f"{self.path}: its schema is {version}, this program knows {len(SCHEMA)}; it was "
                "written by a newer version of this broker, so start that one"
            )
        is_ours = self._pragma("application_id") == APPLICATION_ID
        if not is_ours and self._pragma("schema_version"):
            raise _unusable(self.path, "it is another program's database")
        fault = self._database.execute("PRAGMA quick_check(1)").fetchone()[0]
        if fault != "ok":
            raise _unusable(self.path, fault)
        for pragma in ("synchronous = FULL", "foreign_keys = ON", "journal_mode = WAL"):
            self._database.execute(f"PRAGMA {pragma}")
        if version < len(SCHEMA):
            self._migrate(version)

    def _migrate(self, version: int) -> None:
        with self._change() as run:
            for step in SCHEMA[version:]:
                for statement in step.split(";"):
                    run(statement)
            run(f"PRAGMA application_id = {APPLICATION_ID}")
            run(f"PRAGMA user_version = {len(SCHEMA)}")
            if version == 0:
                cluster_id = kafka_uuid.text_of(kafka_uuid.new())
                run("INSERT INTO cluster VALUES (1, ?, ?, 0)", (cluster_id, _now_ms()))

    def close(self) -> None:
        with self._lock:
            self._database.close()

    # The cluster

    @property
    def cluster_id(self) -> str:
        return str(self._rows("SELECT id FROM cluster")[0][0])

    @property
    def is_settled(self) -> bool:
        """False from the birth of the file until `settle`: the directories found beside it are not
        orphans then, but topics whose catalog was lost or never was."""
        return bool(self._rows("SELECT is_settled FROM cluster")[0][0])

    def settle(self, topics: Iterable[TopicRow], next_producer_id: int) -> None:
        """Takes in, all at once, the topics that were found without a catalog."""
        with self._change() as run:
            for each in topics:
                _insert(run, each)
            run("UPDATE producer_ids SET next = max(next, ?)", (next_producer_id,))
            run("UPDATE cluster SET is_settled = 1")

    # Topics

    def topics(self) -> list[TopicRow]:
        configs: dict[str, dict[str, str]] = {}
        for topic, name, value in self._rows("SELECT * FROM topic_configs ORDER BY topic, name"):
            configs.setdefault(topic, {})[name] = value
        rows = self._rows("SELECT name, id, partitions, created_ms FROM topics ORDER BY name")
        return [
            TopicRow(name, uuid.UUID(bytes=raw), partitions, configs.get(name, {}), created_ms)
            for name, raw, partitions, created_ms in rows
        ]

    def put_topic(self, topic: TopicRow) -> None:
        with self._change() as run:
            _insert(run, topic)

    def set_partitions(self, topic: str, partitions: int) -> None:
        with self._change() as run:
            run("UPDATE topics SET partitions = ? WHERE name = ?", (partitions, topic))

    def set_configs(self, topic: str, configs: Mapping[str, str]) -> None:
        """All of them: those not given are back at their defaults."""
        with self._change() as run:
            run("DELETE FROM topic_configs WHERE topic = ?", (topic,))
            _insert_configs(run, topic, configs)

    def begin_deletion(self, topic: str) -> None:
        """From here on the topic is no more; its directories are to go."""
        with self._change() as run:
            run(
                "INSERT OR REPLACE INTO deletions SELECT name, id, partitions FROM topics "
                "WHERE name = ?",
                (topic,),
            )
            run("DELETE FROM topics WHERE name = ?", (topic,))

    def end_deletion(self, topic: str) -> None:
        with self._change() as run:
            run("DELETE FROM deletions WHERE name = ?", (topic,))

    def deletions(self) -> list[TopicRow]:
        """Begun, and not known to have ended."""
        rows = self._rows("SELECT name, id, partitions FROM deletions ORDER BY name")
        return [TopicRow(name, uuid.UUID(bytes=raw), count) for name, raw, count in rows]

    # The admin pages

    def admin_users(self) -> list[AdminUser]:
        rows = self._rows("SELECT * FROM admin_users")
        return [AdminUser(*row) for row in rows]

    def put_admin_user(self, user: AdminUser) -> None:
        values = (user.name, user.role, user.password_hash, user.created_ms, user.may_read)
        with self._change() as run:
            run("INSERT OR REPLACE INTO admin_users VALUES (?, ?, ?, ?, ?)", values)

    def delete_admin_user(self, name: str) -> None:
        with self._change() as run:
            run("DELETE FROM admin_users WHERE name = ?", (name,))

    def admin_tokens(self) -> list[AdminToken]:
        rows = self._rows("SELECT * FROM admin_tokens")
        return [AdminToken(*row) for row in rows]

    def put_admin_token(self, token: AdminToken) -> None:
        values = (
            token.name, token.role, token.digest, token.created_ms, token.may_read,
            token.expires_ms,
        )  # fmt: skip
        with self._change() as run:
            run("INSERT INTO admin_tokens VALUES (?, ?, ?, ?, ?, ?)", values)

    def delete_admin_token(self, name: str) -> None:
        with self._change() as run:
            run("DELETE FROM admin_tokens WHERE name = ?", (name,))

    def topic_schemas(self, topic: str) -> list[TopicSchema]:
        rows = self._rows("SELECT * FROM topic_schemas WHERE topic = ?", (topic,))
        return [TopicSchema(*row) for row in rows]

    def put_topic_schema(self, row: TopicSchema) -> None:
        with self._change() as run:
            run("INSERT OR REPLACE INTO topic_schemas VALUES (?, ?, ?, ?, ?, ?)", astuple(row))

    def delete_topic_schema(self, topic: str, part: str) -> bool:
        """Whether there was one."""
        with self._change() as run:
            found = run("DELETE FROM topic_schemas WHERE (topic, part) = (?, ?)", (topic, part))
            return found.rowcount > 0

    # The audit trail

    def add_audit(self, *rows: AuditRow) -> None:
        """Where there are too many, the oldest of who has most go: nobody pushes out another's."""
        with self._change() as run:
            for row in rows:
                values = (row.at_ms, row.who, row.peer, row.action, row.details, row.status)
                run("INSERT INTO audit VALUES (NULL, ?, ?, ?, ?, ?, ?)", values)
            counts, self._audit_counts = self._audit_counts, None  # counted anew where this fails
            if counts is None:
                counts = Counter(dict(run("SELECT who, count(*) FROM audit GROUP BY who")))
            else:
                counts.update(row.who for row in rows)
            _shorten(run, counts, counts[STRANGER] - AUDIT_STRANGERS_MAX, STRANGER)
            _shorten(run, counts, sum(counts.values()) - AUDIT_MAX, None)
            self._audit_counts = counts

    def audit(self, before: int | None, limit: int) -> list[AuditRow]:
        """The newest first."""
        most = before if before is not None else 2**63 - 1
        rows = self._rows(
            "SELECT * FROM audit WHERE id < ? ORDER BY id DESC LIMIT ?", (most, limit)
        )
        return [AuditRow(*each) for each in rows]

    # The ledger

    def ledger(self) -> list[LedgerRow]:
        return [LedgerRow(*row) for row in self._rows("SELECT * FROM ledger ORDER BY id")]

    def add_to_ledger(self, rows: Iterable[LedgerRow]) -> list[LedgerRow]:
        """The same with their ids."""
        added = []
        with self._change() as run:
            for each in rows:
                found = run(f"INSERT INTO ledger VALUES ({', '.join('?' * 11)})",
                            (None, *astuple(each)[1:]))  # fmt: skip
                added.append(replace(each, id=found.lastrowid or 0))
        return added

    def acknowledge(self, entries: Iterable[tuple[int, int, str]]) -> None:
        """Each with when, and by whom."""
        with self._change() as run:
            for number, at_ms, who in entries:
                run("UPDATE ledger SET acknowledged_ms = ?, acknowledged_by = ? WHERE id = ?",
                    (at_ms, who, number))  # fmt: skip

    # Exports

    def export_holds(self) -> list[HoldRow]:
        return [HoldRow(*row) for row in self._rows("SELECT * FROM export_holds")]

    def put_export_hold(self, row: HoldRow) -> None:
        values = (
            row.name, row.topic, row.offsets, row.max_bytes, row.put_ms, row.released_ms,
            row.why_released,
        )  # fmt: skip
        with self._change() as run:
            run("INSERT OR REPLACE INTO export_holds VALUES (?, ?, ?, ?, ?, ?, ?)", values)

    def delete_export_hold(self, name: str) -> None:
        with self._change() as run:
            run("DELETE FROM export_holds WHERE name = ?", (name,))

    def exports(self) -> list[tuple[str, str]]:
        """Name and definition."""
        return [(name, text) for name, text in self._rows("SELECT * FROM exports")]

    def put_export(self, name: str, definition: str) -> None:
        query = (
            "INSERT INTO exports VALUES (?, ?) "
            "ON CONFLICT (name) DO UPDATE SET definition = excluded.definition"
        )
        with self._change() as run:
            run(query, (name, definition))

    def delete_export(self, name: str) -> None:
        """With its runs."""
        with self._change() as run:
            run("DELETE FROM exports WHERE name = ?", (name,))

    def export_runs(self, export: str, limit: int, state: str = "%") -> list[str]:
        """The one that was told of last is first: a clock that had been wrong would keep its run
        above all that come after."""
        query = (
            "SELECT run FROM export_runs WHERE export = ? AND state LIKE ? "
            "ORDER BY rowid DESC LIMIT ?"
        )
        return [text for (text,) in self._rows(query, (export, state, limit))]

    def put_export_run(self, export: str, row: Values, most: int) -> None:
        """`row`: id, state, start and JSON. The last that succeeded stays, however old it is."""
        trim = (
            "DELETE FROM export_runs WHERE export = ?1 AND id NOT IN (SELECT id FROM export_runs "
            "WHERE export = ?1 ORDER BY rowid DESC LIMIT ?2) AND id NOT IN (SELECT id FROM "
            "export_runs WHERE export = ?1 AND state = 'succeeded' ORDER BY rowid DESC LIMIT 1)"
        )
        with self._change() as run:
            run("INSERT OR REPLACE INTO export_runs VALUES (?, ?, ?, ?, ?)", (export, *row))
            run(trim, (export, most))

    # The broker

    def broker_configs(self, is_default: bool = False) -> dict[str, str]:
        """What was set at run time: for this broker, or as the default of all brokers."""
        query = "SELECT name, value FROM broker_configs WHERE is_default = ? ORDER BY name"
        return dict(self._rows(query, (is_default,)))

    def set_broker_configs(self, configs: Mapping[str, str], is_default: bool = False) -> None:
        with self._change() as run:
            run("DELETE FROM broker_configs WHERE is_default = ?", (is_default,))
            for name, value in configs.items():
                run("INSERT INTO broker_configs VALUES (?, ?, ?)", (is_default, name, value))

    # Groups

    def group_configs(self) -> dict[str, dict[str, str]]:
        found: dict[str, dict[str, str]] = {}
        query = "SELECT group_id, name, value FROM group_configs ORDER BY group_id, name"
        for group_id, name, value in self._rows(query):
            found.setdefault(group_id, {})[name] = value
        return found

    def set_group_configs(self, group_id: str, configs: Mapping[str, str]) -> None:
        with self._change() as run:
            run("DELETE FROM group_configs WHERE group_id = ?", (group_id,))
            for name, value in configs.items():
                run("INSERT INTO group_configs VALUES (?, ?, ?)", (group_id, name, value))

    # Producer ids

    def reserve_producer_ids(self) -> range:
        """A block that nobody had before and nobody gets again, also after a crash."""
        with self._change() as run:
            first: int = run("SELECT next FROM producer_ids").fetchone()[0]
            run("UPDATE producer_ids SET next = ?", (first + PRODUCER_IDS,))
        return range(first, first + PRODUCER_IDS)

    # Rights, secrets, quotas. What a row means is the business of the module that keeps it.

    def acls(self) -> list[tuple[Any, ...]]:
        return self._rows("SELECT * FROM acls")

    def change_acls(self, added: Iterable[Values], removed: Iterable[Values]) -> None:
        with self._change() as run:
            for row in removed:
                run(
                    "DELETE FROM acls WHERE (resource_type, resource_name, pattern_type, "
                    "principal, host, operation, permission_type) = (?, ?, ?, ?, ?, ?, ?)",
                    row,
                )
            for row in added:
                run("INSERT INTO acls VALUES (?, ?, ?, ?, ?, ?, ?)", row)

    def scram(self) -> list[tuple[Any, ...]]:
        return self._rows("SELECT * FROM scram")

    def change_scram(self, put: Iterable[Values], removed: Iterable[Values]) -> None:
        """`removed` are users with their mechanisms."""
        with self._change() as run:
            for row in removed:
                run("DELETE FROM scram WHERE (user, mechanism) = (?, ?)", row)
            for row in put:
                run("INSERT OR REPLACE INTO scram VALUES (?, ?, ?, ?, ?, ?)", row)

    def client_quotas(self) -> list[tuple[str, str, float]]:
        return self._rows("SELECT * FROM client_quotas")

    def set_client_quotas(self, quotas: Mapping[str, Mapping[str, float]]) -> None:
        """All of each entity that is given: what it had else is gone."""
        with self._change() as run:
            for entity, values in quotas.items():
                run("DELETE FROM client_quotas WHERE entity = ?", (entity,))
                for name, value in values.items():
                    run("INSERT INTO client_quotas VALUES (?, ?, ?)", (entity, name, value))

    def client_metrics(self) -> list[tuple[str, str, str]]:
        return self._rows("SELECT * FROM client_metrics")

    def set_client_metrics(self, subscription: str, configs: Mapping[str, str]) -> None:
        with self._change() as run:
            run("DELETE FROM client_metrics WHERE subscription = ?", (subscription,))
            for name, value in configs.items():
                run("INSERT INTO client_metrics VALUES (?, ?, ?)", (subscription, name, value))

    # SQLite

    def _pragma(self, name: str) -> int:
        return int(self._database.execute(f"PRAGMA {name}").fetchone()[0])

    def _rows(self, query: str, values: tuple[object, ...] = ()) -> list[tuple[Any, ...]]:
        with self._lock:
            try:
                return self._database.execute(query, values).fetchall()
            except sqlite3.Error as error:
                raise CatalogFailed(f"{self.path} cannot be read: {error}") from error

    @contextmanager
    def _change(self) -> Iterator[Run]:
        """One transaction, on disk at the end of the block; not at all when anything is raised."""
        with self._lock:
            try:
                self._database.execute("BEGIN IMMEDIATE")
                yield self._database.execute
                self._database.execute("COMMIT")
            except BaseException as error:
                if self._database.in_transaction:
                    self._database.execute("ROLLBACK")
                if isinstance(error, sqlite3.Error):
                    raise _failed(self.path, error) from error
                raise


def _shorten(run: Run, counts: Counter[str], surplus: int, who: str | None) -> None:
    """The audit trail, of one person or of whoever has most; `counts` is kept right. By some more
    than must be, as looking for them reads the trail."""
    while surplus > 0:
        most = who if who is not None else counts.most_common(1)[0][0]
        count = min(counts[most], surplus + AUDIT_MAX // 1000)
        oldest = "SELECT id FROM audit WHERE who = ? ORDER BY id LIMIT ?"
        run(f"DELETE FROM audit WHERE id IN ({oldest})", (most, count))
        counts[most] -= count
        surplus -= count


def _insert(run: Run, topic: TopicRow) -> None:
    row = (topic.name, topic.id.bytes, topic.partitions, topic.created_ms or _now_ms())
    run("INSERT INTO topics VALUES (?, ?, ?, ?)", row)
    _insert_configs(run, topic.name, topic.configs)


def _insert_configs(run: Run, topic: str, configs: Mapping[str, str]) -> None:
    for name, value in configs.items():
        run("INSERT INTO topic_configs VALUES (?, ?, ?)", (topic, name, value))


def _unusable(path: Path, what: str) -> CatalogUnusable:
    return CatalogUnusable(
        f"{path} is not a catalog that can be used: {what}. The logs are not affected. Put a copy "
        f"of the file from a backup in its place; or move {path.name}, {path.name}-wal and "
        f"{path.name}-shm elsewhere and start again: topics and their ids are then taken from the "
        "directories, and configs are to be set anew"
    )


def _failed(path: Path, error: sqlite3.Error) -> ApplianceError:
    kind = StorageFull if "full" in str(error) else CatalogFailed
    return kind(f"{path} cannot be changed: {error}")


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
