"""A running broker tells what begins and what ends, and of tests, by REST and command."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from appliance.catalog.catalog import NAME, Catalog
from appliance.catalog.loss_ledger import Damage, Ledger
from appliance.catalog.loss_ledger_rows import LedgerRows
from appliance.cli.main import main
from appliance.testing import running_broker
from tests.support.alert_receivers import Hook, Mailbox, MailServer, free_port
from tests.support.rest import Rest

DEADLINE_S = 20.0
FAST = {
    "alerts.begin.after.ms": "0",
    "alerts.end.after.ms": "200",
    "alerts.interval.ms": "0",
    "alerts.retry.backoff.ms": "20",
    "alerts.retry.backoff.max.ms": "100",
    "alerts.timeout.ms": "5000",
}


def by_mail(server: MailServer) -> dict[str, str]:
    return {
        "alerts.mail.server": f"127.0.0.1:{server.port}",
        "alerts.mail.security": "none",
        "alerts.mail.from": "box@example.org",
        "alerts.mail.to": "ann@example.org",
    }


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def told(hook: Hook, area: str) -> list[tuple[str, str]]:
    """What the webhook was told of an area, in order. The same alert may come twice: a stop may
    come between its arrival and the answer."""
    found = [json.loads(body) for _, _, body in hook.got]
    bodies = {each["id"]: each for each in found}.values()
    return [
        (what, each["text"])
        for body in bodies
        for what in ("began", "ended")
        for each in body[what]
        if each["area"] == area
    ]


def run_of(number: int, state: str, **given: Any) -> dict[str, Any]:
    at_ms = 1_700_000_000_000 + number
    return {"id": f"run-{number}", "state": state, "started_ms": at_ms, **given}


def command(*words: str) -> tuple[int, str]:
    found = CliRunner().invoke(main, words)
    return found.exit_code, found.output


def test_failures_and_losses_are_told_once_and_so_are_their_ends(tmp_path: Path) -> None:
    """Also of an export that failed before its plan; and the second failure is no news."""
    data = tmp_path / "data"
    with running_broker(data):
        pass
    catalog = Catalog.open(data / NAME)
    Ledger(LedgerRows(catalog)).note([Damage("orders", 0, 3, 4, "bit rot")])
    catalog.close()
    with Hook() as hook, MailServer(Mailbox()) as server:
        settings = {**FAST, **by_mail(server), "alerts.webhook.url": hook.url}
        with running_broker(data, settings) as broker:
            rest = Rest(broker.admin)
            until(lambda: len(told(hook, "ledger")) == 1)
            assert "orders-0: offsets 3 to 4: bit rot" in told(hook, "ledger")[0][1]
            rest.ask("PUT", "/exports/daily", {"topics": ["orders"], "target": "/lake"})
            failed = run_of(1, "failed", error="no Java\nis here")
            rest.post("/exports/daily/runs", {**failed, "id": "early-1"})
            until(lambda: len(told(hook, "exports")) == 1)
            text = "the last run of export daily failed: no Java is here"
            assert told(hook, "exports") == [("began", text)]
            rest.post("/exports/daily/runs", run_of(2, "failed", error="disk full"))
            rest.post("/ledger/acknowledge", {"ids": [1]})
            until(lambda: len(told(hook, "ledger")) == 2)  # several looks later
            assert len(told(hook, "exports")) == 1
            rest.post("/exports/daily/runs", run_of(3, "succeeded"))
            until(lambda: len(told(hook, "exports")) == 2)
            assert told(hook, "exports")[1] == ("ended", text)
            assert told(hook, "ledger")[1][0] == "ended"
            until(lambda: len(server.mailbox.mails) == len(hook.got))
            found = rest.get("/alerts")
            assert all(each["area"] not in ("exports", "ledger") for each in found["told"])
            assert {each["channel"]: each["given_up"] for each in found["channels"]} == {
                "mail": 0, "webhook": 0
            }  # fmt: skip
            assert len(found["alerts"]) == len({json.loads(body)["id"] for *_, body in hook.got})


def test_a_restart_repeats_nothing(tmp_path: Path) -> None:
    with Hook() as hook:
        settings = {**FAST, "alerts.webhook.url": hook.url}
        with running_broker(tmp_path, settings) as broker:
            rest = Rest(broker.admin)
            rest.ask("PUT", "/exports/daily", {"topics": ["orders"], "target": "/lake"})
            rest.post("/exports/daily/runs", run_of(1, "failed"))
            until(lambda: len(told(hook, "exports")) == 1)
        with running_broker(tmp_path, settings) as broker:
            rest = Rest(broker.admin)
            rest.post("/exports/daily/runs", run_of(2, "succeeded"))
            until(lambda: len(told(hook, "exports")) == 2)
        assert [what for what, _ in told(hook, "exports")] == ["began", "ended"]
    with running_broker(tmp_path, FAST) as broker:
        rest = Rest(broker.admin)

        def trail() -> list[Any]:
            entries = rest.get("/audit")["entries"]
            return [each for each in entries if each["action"].startswith("alerts by")]

        until(lambda: len(trail()) > 1)  # nobody waits for what no request has done
        targets = [json.loads(each["details"])["target"] for each in trail()]
        assert targets == [None, hook.url.removesuffix("/hook")]
        assert {each["who"] for each in trail()} == {"the settings"}


def test_a_test_tells_at_once_what_became_of_it(tmp_path: Path) -> None:
    port = free_port()
    with MailServer(Mailbox()) as server:
        settings = {**by_mail(server), "alerts.webhook.url": f"http://127.0.0.1:{port}/hook"}
        with running_broker(tmp_path, settings) as broker:
            rest = Rest(broker.admin)
            code, said = command("alert", "test", "--admin", broker.admin)
            assert (code, "mail: sent" in said, "webhook: http" in said) == (1, True, True)
            assert server.mailbox.mails[0]["Subject"].endswith("alerts of this broker arrive here.")
            with Hook(port):
                code, said = command("alert", "test", "--json", "--admin", broker.admin)
                assert code == 0
                assert {each["state"] for each in json.loads(said)["deliveries"]} == {"sent"}
            code, said = command("alert", "list", "--admin", broker.admin)
            assert (code, said.count("This is a test"), f":{port}" in said) == (0, 2, True)
            assert "POST /api/v1/alerts/test" in [
                each["action"] for each in rest.get("/audit")["entries"]
            ]
            page = rest.raw("GET", "/metrics").body.decode()
            assert 'appliance_alerts_waiting{channel="mail"} 0.0' in page


def test_a_channel_that_fails_is_in_health_and_goes_out_by_the_other(tmp_path: Path) -> None:
    password = tmp_path / "password"
    password.write_text("hunter2\n")
    password.chmod(0o644)
    with Hook() as hook, MailServer(Mailbox()) as server:
        login = {"alerts.mail.user": "box", "alerts.mail.password.file": str(password)}
        settings = {**FAST, **by_mail(server), **login, "alerts.webhook.url": hook.url}
        with running_broker(tmp_path / "data", settings) as broker:
            until(lambda: len(told(hook, "alerts")) == 1)
            [(what, text)] = told(hook, "alerts")
            assert (what, f"chmod 600 {password}" in text) == ("began", True)
            reasons = Rest(broker.admin).get("/health")["findings"]
            assert text in [each["text"] for each in reasons if each["area"] == "alerts"]


def test_who_is_refused_while_others_get_the_mail_is_in_health(tmp_path: Path) -> None:
    def told_in_health(rest: Rest) -> list[str]:
        findings = rest.get("/health")["findings"]
        return [each["text"] for each in findings if each["area"] == "alerts"]

    with MailServer(Mailbox()) as server:
        server.mailbox.refused = "on-call@example.org"
        to = {"alerts.mail.to": "ann@example.org,on-call@example.org"}
        with running_broker(tmp_path / "data", {**FAST, **by_mail(server), **to}) as broker:
            rest = Rest(broker.admin)
            rest.post("/alerts/test")
            [text] = told_in_health(rest)
            refused = f"127.0.0.1:{server.port} refused on-call@example.org"
            assert text == f"not all got the last alert by mail: {refused}"
            assert rest.get("/health")["status"] == "degraded"
            [channel] = rest.get("/alerts")["channels"]
            assert channel["fault"] == refused
            # the mail that tells of it is refused there, too: it comes before, or it would be last
            until(lambda: {each["deliveries"][0]["state"] for each in rest.get("/alerts")["alerts"]
                           if each["kind"] == "change"} == {"sent"})  # fmt: skip
            server.mailbox.refused = ""
            rest.post("/alerts/test")
            assert told_in_health(rest) == []


def test_without_a_channel_nothing_is_sent_and_the_answer_says_what_to_set(
    tmp_path: Path,
) -> None:
    with running_broker(tmp_path) as broker:
        answer = Rest(broker.admin).ask("POST", "/alerts/test", {})
        assert (answer.status, "alerts.mail.server" in str(answer.body)) == (400, True)
        assert Rest(broker.admin).get("/alerts") == {"channels": [], "told": [], "alerts": []}
        assert "Alerts go nowhere" in command("alert", "list", "--admin", broker.admin)[1]
