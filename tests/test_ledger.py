"""The ledger of losses: durable, each damage once, open until somebody has seen it."""

from __future__ import annotations

from pathlib import Path

import pytest

from appliance.catalog import Catalog, LedgerRow
from appliance.errors import StorageFull
from appliance.ledger import Damage, EntryUnknown, Ledger

LOST = Damage("orders", 3, 100, 405, "the directory is gone")
TORN = Damage("orders", 3, 500, None, "a batch is damaged", "damaged", "orders-3/0.log.corrupt-1")


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    return Catalog.open(tmp_path / "catalog.db")


def test_entries_outlive_the_process_and_stay_open(catalog: Catalog) -> None:
    Ledger(catalog).note([LOST, TORN])
    catalog.close()
    found = Ledger(Catalog.open(catalog.path)).open()
    assert [each.damage for each in found] == [LOST, TORN]
    assert all(each.id for each in found)


def test_an_open_damage_is_not_noted_twice_and_an_acknowledged_one_is(catalog: Catalog) -> None:
    ledger = Ledger(catalog)
    ledger.note([LOST, LOST])
    ledger.note([LOST])
    (first,) = ledger.entries()
    ledger.acknowledge([first.id], "ann")
    assert ledger.open() == []
    ledger.note([LOST])
    (second,) = ledger.open()
    assert second.id != first.id


def test_who_acknowledged_is_kept_and_never_overwritten(catalog: Catalog) -> None:
    ledger = Ledger(catalog)
    ledger.note([LOST])
    (entry,) = ledger.entries()
    assert [each.acknowledged_by for each in ledger.acknowledge([entry.id], "ann")] == ["ann"]
    assert ledger.acknowledge([entry.id], "bob") == []
    (kept,) = Ledger(catalog).entries()
    assert (kept.acknowledged_by, kept.is_open) == ("ann", False)


def test_an_entry_that_is_not_there_is_refused_and_nothing_is_acknowledged(
    catalog: Catalog,
) -> None:
    ledger = Ledger(catalog)
    ledger.note([LOST])
    (entry,) = ledger.entries()
    with pytest.raises(EntryUnknown, match="no entry 99"):
        ledger.acknowledge([entry.id, 99], "ann")
    assert len(ledger.open()) == 1


def test_what_a_full_disk_does_not_take_counts_and_is_stored_later(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = Ledger(catalog)

    def refuse(rows: list[LedgerRow]) -> list[LedgerRow]:
        raise StorageFull("no room")

    with monkeypatch.context() as patch:
        patch.setattr(catalog, "add_to_ledger", refuse)
        assert not ledger.note([LOST])
        assert not ledger.note([LOST])
        assert not ledger.save()
    assert ([each.damage for each in ledger.open()], ledger.unsaved) == ([LOST], 1)
    assert Ledger(catalog).open() == []
    assert ledger.save()
    assert ledger.unsaved == 0
    assert [each.damage for each in Ledger(catalog).open()] == [LOST]


def test_an_act_that_cannot_be_stored_is_refused_and_never_told(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = Ledger(catalog)

    def refuse(rows: list[LedgerRow]) -> list[LedgerRow]:
        raise StorageFull("no room")

    with monkeypatch.context() as patch:
        patch.setattr(catalog, "add_to_ledger", refuse)
        ledger.note([LOST])
        with pytest.raises(StorageFull):
            ledger.note_act([Damage("orders", 3, 100, 405, "ann lets readers pass", "skipped")])
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
