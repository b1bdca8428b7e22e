"""What is told, and when: once at its begin, once at its end."""

from __future__ import annotations

import pytest

from appliance.alerts.alert import TOLD, Box, Condition, of_change, of_test, shortened
from appliance.alerts.conditions import Conditions, key_of, of_findings, of_ledger
from appliance.broker.finding import Finding
from appliance.broker.health import IN_LEDGER
from appliance.catalog.loss_ledger import Damage, Entry

BOX = Box("rack1", 1, "c", "1.0")
HOT = Condition("hot", "degraded", "disk", "sda is hot", 1)
COLD = Condition("cold", "failing", "disk", "sda is gone", 2)


class Watched:
    def __init__(self, told: list[Condition] | None = None) -> None:
        self.conditions = Conditions(10, 60, told or [], 0.0)

    def at(self, second: float, *found: Condition) -> tuple[list[str], list[str]]:
        self.conditions.look({each.key: each for each in found}, second)
        began, ended = self.conditions.take(second)
        return [each.key for each in began], [each.key for each in ended]


NOTHING: tuple[list[str], list[str]] = ([], [])


def test_it_is_told_once_when_it_begins_and_once_when_it_ends() -> None:
    watched = Watched()
    assert watched.at(0, HOT) == NOTHING
    assert watched.at(10, HOT) == (["hot"], [])
    assert watched.at(20, HOT) == NOTHING
    assert watched.at(30) == NOTHING
    assert watched.at(79) == NOTHING
    assert watched.at(80) == ([], ["hot"])
    assert watched.at(200) == NOTHING


def test_what_is_soon_over_is_told_to_nobody() -> None:
    watched = Watched()
    assert watched.at(0, HOT) == NOTHING
    assert all(watched.at(second) == NOTHING for second in range(5, 100, 5))


def test_what_comes_and_goes_is_one() -> None:
    watched = Watched()
    told = [watched.at(second, *([HOT] if second // 20 % 2 == 0 else [])) for second in range(600)]
    assert [each for each in told if each != NOTHING] == [(["hot"], [])]


def test_what_comes_and_goes_faster_than_it_is_told_is_told_too() -> None:
    watched = Watched()
    told = [watched.at(second, *([HOT] if second % 9 < 3 else [])) for second in range(100)]
    assert [each for each in told if each != NOTHING] == [(["hot"], [])]


def test_a_restart_tells_nothing_twice_and_tells_the_end() -> None:
    watched = Watched([HOT, COLD])
    assert watched.at(1, HOT) == NOTHING
    assert watched.at(30, HOT) == NOTHING
    assert watched.at(61, HOT) == ([], ["cold"])


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        ("the disk is nearly full: 3.1 GiB free", "the disk is nearly full: 912.0 MiB free", True),
        ("a sync has not ended for 45.0 s: wait", "a sync has not ended for 2.1 min: wait", True),
        ("ends in 12 days: put a new", "ends in 9 days: put a new", True),
        ("ZooKeeper is away for 3 s", "ZooKeeper is away for 91 s", True),
        ("80 of 1024 file descriptors", "1,000 of 1024 file descriptors", True),
        ("written 2026-11-25 19:34:15Z", "written 2026-11-26 03:00:00Z", True),
        ("md0 lacks 1 of its 6 disks, 3% done", "md0 lacks 1 of its 6 disks, 97% done", True),
        ("md0 lacks 1 of its 6 disks", "md0 lacks 2 of its 6 disks", False),
        ("orders-3: cannot be read", "orders-4: cannot be read", False),
        ("sda1: 3 sectors", "sda2: 3 sectors", False),
        ("md0 is degraded", "md1 is degraded", False),
        ("t.1: gone", "t.2: gone", False),
        ("/mnt/2: 4 GiB", "/mnt/3: 4 GiB", False),
    ],
)
def test_numbers_make_no_new_finding_and_names_do(one: str, other: str, is_same: bool) -> None:
    keys = {key_of(Finding("degraded", "a", text)) for text in (one, other)}
    assert len(keys) == (1 if is_same else 2)


def test_a_finding_that_says_what_it_is_about_may_change_its_words() -> None:
    found = [Finding("degraded", "exports", text, "daily failed") for text in ("no room", "away")]
    assert len(of_findings(found, 1)) == 1
    worse = found[0]._replace(level="failing")
    assert len(of_findings([*found, worse], 1)) == 2


def test_entries_of_the_ledger_are_told_each_by_itself() -> None:
    findings = [Finding("degraded", "ledger", "t-0: lost", IN_LEDGER),
                Finding("degraded", "ledger", "3 damages cannot be stored")]  # fmt: skip
    assert [each.text for each in of_findings(findings, 1).values()] == [findings[1].text]
    entries = [Entry(0, 5, Damage("t", 0, first, first + 1, "bit rot")) for first in (1, 9)]
    found = of_ledger(entries)
    assert [each.began_ms for each in found.values()] == [5, 5]
    stored = [Entry(7, 5, each.damage) for each in entries]
    assert of_ledger(stored).keys() == found.keys()  # it is the same once it has an id


def test_thousands_are_one_message_that_says_how_many() -> None:
    many = [Condition(str(n), "degraded", "logs", f"t-{n} has failed", 1) for n in range(5000)]
    alert = of_change([*many, COLD], [HOT], 3)
    assert (len(alert.began), alert.more_began) == (TOLD, 5001 - TOLD)
    assert alert.began[0] == COLD  # the worst first
    assert alert.subject == "Failing: sda is gone (5000 more, 1 over)"
    assert f"and {5001 - TOLD} more" in alert.text(BOX)
    assert len(alert.text(BOX)) < 3000
    assert of_change([], [HOT, COLD], 3).subject == "Over: sda is hot (1 more)"


def test_a_text_is_one_line_whatever_is_in_it() -> None:
    text = "no room\r\nBcc: all@example\x1b[31m\u2028end"
    assert shortened(text) == "no room Bcc: all@example [31m end"
    assert len(shortened("x" * 5000)) == 1000
    found = of_findings([Finding("degraded", "exports", text)], 1)
    assert all("\n" not in each.text for each in found.values())
    assert "\n" not in of_test(1).subject
