"""The catalog on a real disk: what it keeps, after a kill, a torn write, and damage."""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import uuid
from pathlib import Path

import pytest

from appliance.access.acl_rows import AclRows
from appliance.access.user_rows import Credential, User, UserRows
from appliance.catalog import kafka_uuid
from appliance.catalog.catalog import NAME, Catalog, CatalogFailed, CatalogUnusable
from appliance.catalog.producer_id_rows import BLOCK, ProducerIdRows
from appliance.errors import StorageFull
from appliance.topics.topic_rows import TopicRow, TopicRows
from tests.support.catalogs import (
    CLICKS,
    ORDERS,
    killed,
    of_broker,
    of_clients,
    of_metrics,
    opened,
    state_of,
)


def test_what_was_written_is_there_again(tmp_path: Path) -> None:
    with opened(tmp_path) as catalog:
        cluster_id = catalog.cluster_id
        assert kafka_uuid.text_of(kafka_uuid.parse(cluster_id)) == cluster_id
        topics, configs = TopicRows(catalog), of_broker(catalog)
        assert (topics.all(), configs.all(), topics.is_settled) == ([], {}, False)
        topics.put(ORDERS)
        topics.put(CLICKS)
        topics.set_partitions({"orders": 4})
        topics.set_configs("clicks", {"flush.ms": "1", "segment.ms": "2"})
        topics.set_configs("clicks", {"flush.ms": "3"})
        configs.set({False: {"log.roll.ms": "9"}, True: {"log.roll.ms": "7"}})
        configs.set({True: {"log.roll.ms": "8"}})
    with opened(tmp_path) as catalog:
        assert catalog.cluster_id == cluster_id
        assert TopicRows(catalog).all() == [
            TopicRow("clicks", CLICKS.id, 1, {"flush.ms": "3"}, CLICKS.created_ms),
            TopicRow("orders", ORDERS.id, 4, {"retention.ms": "5"}, ORDERS.created_ms),
        ]
        configs = of_broker(catalog)
        assert configs.all() == {False: {"log.roll.ms": "9"}, True: {"log.roll.ms": "8"}}


def test_a_deletion_is_remembered_until_it_ended(tmp_path: Path) -> None:
    with opened(tmp_path) as catalog:
        TopicRows(catalog).put(ORDERS)
        TopicRows(catalog).begin_deletions(["orders"])
        assert TopicRows(catalog).all() == []
    with opened(tmp_path) as catalog:
        assert TopicRows(catalog).deletions() == [TopicRow("orders", ORDERS.id, 3)]
        TopicRows(catalog).put(ORDERS)  # its configs went with it: no leftovers in the way
        assert TopicRows(catalog).all() == [ORDERS]
        TopicRows(catalog).end_deletions(["orders"])
        assert TopicRows(catalog).deletions() == []


def test_every_change_is_on_disk_when_it_returns(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    with opened(data) as catalog:
        changes = [
            lambda: TopicRows(catalog).put(ORDERS),
            lambda: TopicRows(catalog).set_partitions({"orders": 9}),
            lambda: TopicRows(catalog).set_configs("orders", {}),
            lambda: of_broker(catalog).set({False: {"log.roll.ms": "1"}}),
            lambda: TopicRows(catalog).settle([CLICKS], 5000),
            lambda: TopicRows(catalog).begin_deletions(["orders"]),
            lambda: TopicRows(catalog).end_deletions(["orders"]),
        ]
        for i, change in enumerate(changes):
            change()
            with opened(killed(data, tmp_path / str(i))) as again:
                assert state_of(again) == state_of(catalog)


def test_a_write_ahead_log_cut_anywhere_is_a_state_that_was(tmp_path: Path) -> None:
    """A power cut before the sync returned leaves any part of it."""
    data = tmp_path / "data"
    data.mkdir()
    with opened(data) as catalog:
        legal: list[list[TopicRow]] = [[]]
        for i in range(3):
            row = TopicRow(f"t{i}", uuid.UUID(int=i + 100), 1, {"flush.ms": "1"}, 5)
            TopicRows(catalog).put(row)
            legal.append(TopicRows(catalog).all())
        whole = killed(data, tmp_path / "whole")
    wal = whole / f"{NAME}-wal"
    size = wal.stat().st_size
    seen = set()
    for cut in [*range(0, size, 512), size]:
        state = killed(whole, tmp_path / f"cut-{cut}")
        os.truncate(state / wal.name, cut)
        try:
            with opened(state) as again:
                seen.add(len(TopicRows(again).all()))
                assert TopicRows(again).all() in legal
        finally:
            shutil.rmtree(state)
    assert seen == {0, 1, 2, 3}


# Producer ids

TAKE = """
import sys
from pathlib import Path
from appliance.catalog.catalog import Catalog
from appliance.catalog.producer_id_rows import ProducerIdRows
rows = ProducerIdRows(Catalog.open(Path(sys.argv[1])))
while True:
    block = rows.reserve()
    print(block.start, block.stop, flush=True)
"""


def test_no_producer_id_is_given_twice_whatever_kills_us(tmp_path: Path) -> None:
    given: list[range] = []
    for _ in range(3):
        taker = subprocess.Popen(
            [sys.executable, "-c", TAKE, str(tmp_path / NAME)], stdout=subprocess.PIPE, text=True
        )
        assert taker.stdout is not None
        for _ in range(5):
            given.append(range(*map(int, taker.stdout.readline().split())))
        taker.send_signal(signal.SIGKILL)
        for line in taker.stdout.read().splitlines():
            if len(line.split()) == 2 and line.endswith("000"):
                given.append(range(*map(int, line.split())))
        taker.wait()
        taker.stdout.close()
    with opened(tmp_path) as catalog:
        given.append(ProducerIdRows(catalog).reserve())
    ends = sorted((block.start, block.stop) for block in given)
    assert all(stop - start == BLOCK for start, stop in ends)
    assert all(a[1] <= b[0] for a, b in itertools.pairwise(ends))


def test_a_block_that_failed_is_not_given(tmp_path: Path) -> None:
    with opened(tmp_path) as catalog:
        first = ProducerIdRows(catalog).reserve()
        catalog._database.execute("PRAGMA query_only = 1")
        with pytest.raises(CatalogFailed, match="cannot be changed"):
            ProducerIdRows(catalog).reserve()
        catalog._database.execute("PRAGMA query_only = 0")
        assert ProducerIdRows(catalog).reserve().start == first.stop


def test_settling_never_moves_the_ids_back(tmp_path: Path) -> None:
    with opened(tmp_path) as catalog:
        TopicRows(catalog).settle([ORDERS], 41_000)
        assert TopicRows(catalog).is_settled
        assert ProducerIdRows(catalog).reserve().start == 41_000
        TopicRows(catalog).settle([], 5)
        assert ProducerIdRows(catalog).reserve().start == 42_000
        assert TopicRows(catalog).all() == [ORDERS]


# Failures


def test_a_change_that_fails_changed_nothing(tmp_path: Path) -> None:
    with opened(tmp_path) as catalog:
        TopicRows(catalog).put(ORDERS)
        with pytest.raises(CatalogFailed, match="UNIQUE constraint failed"):
            TopicRows(catalog).put(ORDERS)
        with pytest.raises(CatalogFailed):
            TopicRows(catalog).settle([CLICKS, ORDERS], 1)
        with pytest.raises(CatalogFailed):
            TopicRows(catalog).set_partitions({"orders": 0})
        with pytest.raises(CatalogFailed):
            TopicRows(catalog).set_configs("none", {"a": "b"})
        assert (TopicRows(catalog).all(), TopicRows(catalog).is_settled) == ([ORDERS], False)


def test_a_full_disk_is_told_as_one_and_passes(tmp_path: Path) -> None:
    with opened(tmp_path) as catalog:
        TopicRows(catalog).put(ORDERS)
        pages = catalog._pragma("page_count")
        catalog._database.execute(f"PRAGMA max_page_count = {pages}")
        big = {f"config.{i}": "x" * 4000 for i in range(50)}
        with pytest.raises(StorageFull, match="cannot be changed: database or disk is full"):
            TopicRows(catalog).set_configs("orders", big)
        assert TopicRows(catalog).all() == [ORDERS]
        catalog._database.execute(f"PRAGMA max_page_count = {pages + 1000}")
        TopicRows(catalog).set_configs("orders", big)
        assert TopicRows(catalog).all()[0].configs == big


def test_threads_come_one_after_the_other(tmp_path: Path) -> None:
    blocks: list[range] = []
    with opened(tmp_path) as catalog:
        threads = [
            threading.Thread(
                target=lambda: blocks.extend(ProducerIdRows(catalog).reserve() for _ in range(5))
            )
            for _ in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(block.start for block in blocks) == [i * BLOCK for i in range(40)]


def refused(folder: Path) -> str:
    with pytest.raises(CatalogUnusable) as error:
        Catalog.open(folder / NAME)
    assert str(folder / NAME) in str(error.value)
    return str(error.value)


@pytest.mark.parametrize("damage", ["text", "header", "page", "schema"])
def test_a_damaged_file_is_refused_with_what_to_do(damage: str, tmp_path: Path) -> None:
    path = tmp_path / NAME
    with opened(tmp_path) as catalog:
        for i in range(200):
            configs = {f"c{j}": "v" * 50 for j in range(5)}
            TopicRows(catalog).put(TopicRow(f"t{i}", uuid.UUID(int=i + 100), 1, configs))
    data = bytearray(path.read_bytes())
    if damage == "text":
        data[:] = b"this is no database\n" * 1000
    elif damage == "header":
        data[16:18] = b"\x00\x07"
    elif damage == "page":
        data[8192 : 8192 + 2048] = b"\xff" * 2048
    else:
        data[100:200] = b"\xff" * 100
    path.write_bytes(data)
    told = refused(tmp_path)
    assert "from a backup" in told
    assert "move catalog.db, catalog.db-wal and catalog.db-shm elsewhere" in told
    assert path.read_bytes() == bytes(data)


def test_another_programs_database_is_refused_and_let_alone(tmp_path: Path) -> None:
    other = sqlite3.connect(tmp_path / NAME)
    other.execute("CREATE TABLE bookmarks (url TEXT)")
    other.commit()
    other.close()
    before = (tmp_path / NAME).read_bytes()
    assert "another program's database" in refused(tmp_path)
    assert (tmp_path / NAME).read_bytes() == before


def test_a_catalog_that_another_process_holds_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", lambda *a, **kw: connect(*a, **kw, timeout=0))
    with opened(tmp_path):
        assert "another program has it open" in refused(tmp_path)


def test_a_directory_in_its_place_is_refused(tmp_path: Path) -> None:
    (tmp_path / NAME).mkdir()
    assert "cannot be opened" in refused(tmp_path)


def test_an_empty_file_is_a_new_catalog(tmp_path: Path) -> None:
    """A kill between the file's birth and its first page."""
    (tmp_path / NAME).touch()
    with opened(tmp_path) as catalog:
        assert TopicRows(catalog).all() == []


def test_only_the_owner_may_read_it(tmp_path: Path) -> None:
    with opened(tmp_path) as catalog:
        TopicRows(catalog).put(ORDERS)
        modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()}
    assert modes == {NAME: 0o600, f"{NAME}-wal": 0o600}


def test_rights_secrets_and_quotas_survive_a_kill(tmp_path: Path) -> None:
    acl = (2, "orders", 3, "User:ann", "*", 3, 3)
    other = (2, "clicks", 3, "User:ann", "*", 3, 3)
    secret = Credential("ann", 1, b"salt", b"stored", b"server", 4096)
    (tmp_path / "own").mkdir()
    with opened(tmp_path / "own") as catalog:
        acls, users, quotas = AclRows(catalog), UserRows(catalog), of_clients(catalog)
        acls.change([acl, other], [])
        acls.change([], [other])
        ann, bob = User("ann", "admin", "hash", 5), User("bob")
        users.change([ann, bob, User("cid")], [], [secret, Credential("cid", 1, b"", b"", b"", 1)])
        users.change([], ["cid"], [Credential("bob", 2, b"", b"x", b"y", 8192)])
        users.change([ann], [], [], [("bob", 2)])
        of_logins = users.login_secret()
        quotas.set({"a": {"x": 1.5, "y": 2.0}, "b": {"x": 3.0}})
        quotas.set({"a": {"x": 4.5}, "b": {}})
        of_metrics(catalog).set({"slow": {"match": "", "interval.ms": "100"}})
        copy = killed(tmp_path / "own", tmp_path / "copy")
    with opened(copy) as catalog:
        assert AclRows(catalog).all() == [(*acl, 0)]
        users = UserRows(catalog)
        assert (users.users(), users.credentials()) == ([ann, bob], [secret])
        assert users.login_secret() == of_logins
        assert of_clients(catalog).all() == {"a": {"x": 4.5}}
        assert of_metrics(catalog).all() == {"slow": {"match": "", "interval.ms": "100"}}
