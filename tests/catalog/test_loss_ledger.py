"""The ledger of losses: durable, each damage once, open until somebody has seen it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from appliance.catalog.catalog import Catalog
from appliance.catalog.loss_ledger import Damage, Ledger
from appliance.catalog.loss_ledger_rows import LedgerRows
from appliance.cli.main import main
from appliance.errors import ResourceUnknown, StorageFull
from appliance.testing import RunningBroker, running_broker
from tests.support.rest import Rest

LOST = Damage("orders", 3, 100, 405, "the directory is gone")
TORN = Damage("orders", 3, 500, None, "a batch is damaged", "damaged", "orders-3/0.log.corrupt-1")


MANY = 10_500  # more than one request names


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    return Catalog.open(tmp_path / "catalog.db")


def test_entries_outlive_the_process_and_stay_open(catalog: Catalog) -> None:
    Ledger(LedgerRows(catalog)).note([LOST, TORN])
    catalog.close()
    found = Ledger(LedgerRows(Catalog.open(catalog.path))).open()
    assert [each.damage for each in found] == [LOST, TORN]
    assert all(each.id for each in found)


def test_an_open_damage_is_not_noted_twice_and_an_acknowledged_one_is(catalog: Catalog) -> None:
    ledger = Ledger(LedgerRows(catalog))
    ledger.note([LOST, LOST])
    ledger.note([LOST])
    (first,) = ledger.entries()
    ledger.acknowledge([first.id], "ann")
    assert ledger.open() == []
    ledger.note([LOST])
    (second,) = ledger.open()
    assert second.id != first.id


def test_who_acknowledged_is_kept_and_never_overwritten(catalog: Catalog) -> None:
    ledger = Ledger(LedgerRows(catalog))
    ledger.note([LOST])
    (entry,) = ledger.entries()
    assert ledger.acknowledge([entry.id], "ann") == 1
    assert ledger.acknowledge([entry.id], "bob") == 0
    (kept,) = Ledger(LedgerRows(catalog)).entries()
    assert (kept.acknowledged_by, kept.is_open) == ("ann", False)


def test_what_was_known_is_acknowledged_at_once_and_what_came_later_is_not(
    catalog: Catalog,
) -> None:
    ledger = Ledger(LedgerRows(catalog))
    ledger.note([LOST])
    (known,) = ledger.entries()
    ledger.note([replace(LOST, topic="later")])
    assert ledger.acknowledge_up_to(known.id, "ann") == 1
    assert ledger.acknowledge_up_to(known.id, "bob") == 0
    assert [each.damage.topic for each in Ledger(LedgerRows(catalog)).open()] == ["later"]


def test_a_ledger_of_many_entries_is_listed_in_pages_and_acknowledged_whole(
    tmp_path: Path,
) -> None:
    with running_broker(tmp_path):
        pass
    catalog = Catalog.open(tmp_path / "catalog.db")
    Ledger(LedgerRows(catalog)).note([replace(LOST, first_offset=each) for each in range(MANY)])
    catalog.close()
    with running_broker(tmp_path) as broker:
        rest = Rest(broker.admin)
        first = rest.get("/ledger", state="open", limit=1000)
        assert (first["open"], len(first["entries"])) == (MANY, 1000)
        second = rest.get("/ledger", state="open", limit=1000, before=first["next"])
        found = [each["first_offset"] for each in (*first["entries"], *second["entries"])]
        assert found == [*range(MANY - 1, MANY - 2001, -1)]
        assert rest.get("/ledger", topic="other")["entries"] == []
        listed = appliance(broker, "ledger", "list", "--json", code=10)
        assert len(json.loads(listed)) == MANY
        done = appliance(broker, "ledger", "acknowledge", "--all")
        assert done == f"{MANY} damages acknowledged, 0 open\n"
        assert rest.get("/ledger", state="open")["entries"] == []
        assert rest.get("/ledger", state="acknowledged", limit=1)["next"] is not None
        assert rest.refused("POST", "/ledger/acknowledge", {})[0] == 400


def appliance(broker: RunningBroker, *words: str, code: int = 0) -> str:
    environment = {"APPLIANCE_ADMIN_ADDRESS": broker.admin}
    run = CliRunner().invoke(main, [*words], env=environment)
    assert run.exit_code == code, run.output
    return run.stdout


def test_an_entry_that_is_not_there_is_refused_and_nothing_is_acknowledged(
    catalog: Catalog,
) -> None:
    ledger = Ledger(LedgerRows(catalog))
    ledger.note([LOST])
    (entry,) = ledger.entries()
    with pytest.raises(ResourceUnknown, match="no entry 99"):
        ledger.acknowledge([entry.id, 99], "ann")
    assert len(ledger.open()) == 1


def refuse(self: LedgerRows, rows: object) -> list[int]:
    raise StorageFull("no room")


def test_what_a_full_disk_does_not_take_counts_and_is_stored_later(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = Ledger(LedgerRows(catalog))
    with monkeypatch.context() as patch:
        patch.setattr(LedgerRows, "add", refuse)
        assert not ledger.note([LOST])
        assert not ledger.note([LOST])
        assert not ledger.save()
    assert ([each.damage for each in ledger.open()], ledger.unsaved) == ([LOST], 1)
    assert Ledger(LedgerRows(catalog)).open() == []
    assert ledger.save()
    assert ledger.unsaved == 0
    assert [each.damage for each in Ledger(LedgerRows(catalog)).open()] == [LOST]


def test_an_act_that_cannot_be_stored_is_refused_and_never_told(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = Ledger(LedgerRows(catalog))
    with monkeypatch.context() as patch:
        patch.setattr(LedgerRows, "add", refuse)
        ledger.note([LOST])
        with pytest.raises(StorageFull):
            ledger.note_act([Damage("orders", 3, 100, 405, "ann lets readers skip", "skipped")])
        with pytest.raises(StorageFull):
            ledger.note_act([])  # what came before it is not stored either
    ledger.save()
    assert [each.damage for each in ledger.open()] == [LOST]


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (LOST, "orders-3: offsets 100 to 405: the directory is gone"),
        (Damage("a", 0, 7, 7, "gone"), "a-0: offset 7: gone"),
        (TORN, "orders-3: offsets from 500 on: a batch is damaged; what is left is in "
               "orders-3/0.log.corrupt-1"),
    ],
    ids=["a range", "one offset", "no end, and something left"],
)  # fmt: skip
def test_a_damage_in_words(damage: Damage, words: str) -> None:
    assert str(damage) == words
