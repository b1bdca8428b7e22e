"""Home tells of backups: how to make the first, how old the newest is, whether it was proven."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import Browser, expect

from appliance.testing import running_broker
from tests.console.conftest import Faults, opened
from tests.support.backups import Backups, make_topic, produce
from tests.support.rest import Rest
from tests.support.shell import Shell


def test_home_tells_of_backups(browser: Browser, tmp_path: Path, axe: Faults) -> None:
    backups = Backups(tmp_path)
    with running_broker(tmp_path / "data") as broker, opened(browser, broker) as console:
        page = console.open()
        card = page.locator(".tile", has=page.get_by_role("heading", name="Backups"))
        expect(card).to_contain_text("none yet")
        expect(card).to_contain_text("appliance backup create --target")
        expect(card).to_contain_text("appliance-restore-test.timer")
        make_topic(broker, "clicks")
        produce(broker, "clicks", ["a", "b"])
        backups.create(broker)
        expect(card).to_contain_text("s old")
        expect(card).to_contain_text("1 partition, 2 records")
        expect(card).to_contain_text(backups.target)
        expect(card).to_contain_text("no restore was tested yet")
        told = ("--target", backups.target, "--admin", broker.admin)
        Shell("").out("backup restore --test", *told)
        expect(card).to_contain_text("a restore was tested")
        expect(card).to_contain_text("1 partition, 2 records")
        (victim,) = [each for each in backups.files() if each.stat().st_size < 1000]
        content = victim.read_bytes()
        victim.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
        assert Shell("").run("backup restore --test", *told).exit_code == 1
        expect(card).to_contain_text("the last test of a restore failed")
        expect(card).to_contain_text("▲")
        assert axe(page) == []
        outcome = {"kind": "backup", "target": "/mnt/backup", "backup": "", "point_ms": 0}
        Rest(broker.admin).ask("POST", "/backup/outcomes", {**outcome, "fault": "disk full"})
        expect(card).to_contain_text("the last one failed")
