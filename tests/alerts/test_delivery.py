"""Alerts on their way: real servers that take them, refuse, hang, are away and come back."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import ssl
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from appliance.alerts.alert import Alert, Box, Condition, Delivery, of_change, of_test
from appliance.alerts.alert_rows import AlertRows
from appliance.alerts.channel import Channel, NotSent
from appliance.alerts.mail import Mail
from appliance.alerts.outbox import Outbox
from appliance.alerts.webhook import Webhook
from appliance.catalog.catalog import Catalog
from appliance.config import Address, AlertsConfig, SettingInvalid
from appliance.config.names import Names
from appliance.errors import StorageFull
from tests.support.alert_receivers import Hook, Mailbox, MailServer, free_port
from tests.support.certificates import Authority

BOX = Box("rack1", 1, "cluster", "1.0")
HOT = Condition("hot", "degraded", "disk", "sda is hot: 61 °C", 1_700_000_000_000)
DEADLINE_S = 20.0
FAST = {"backoff_ms": 20, "backoff_max_ms": 100}
SECRET = "hunter2 of the mail server"


def secret(path: Path, text: str, mode: int = 0o600) -> Path:
    path.write_text(f"{text}\n")
    path.chmod(mode)
    return path


MAIL = {
    "mail_server": Address("127.0.0.1", 25),
    "mail_from": "box@example.org",
    "mail_to": Names(("ann@example.org", "bob@example.org")),
    "mail_security": "none",
    "timeout_ms": 5000,
}


def by_mail(port: int, **given: Any) -> AlertsConfig:
    return AlertsConfig(**{**MAIL, "mail_server": Address("127.0.0.1", port), **given})


def by_hook(url: str, **given: Any) -> AlertsConfig:
    return AlertsConfig(**{"webhook_url": url, "timeout_ms": 5000, **given})


def send(channel: Channel, alert: Alert) -> None:
    assert asyncio.run(channel.send(alert, BOX)) == ""


def why_not(channel: Channel) -> str:
    with pytest.raises(NotSent) as refused:
        asyncio.run(channel.send(of_test(1), BOX))
    return str(refused.value)


# mail


def test_a_mail_says_what_began_and_what_ended() -> None:
    cold = Condition("cold", "failing", "disk", "sdb\nBcc: x", 2)
    with MailServer(Mailbox()) as server:
        alert = of_change([HOT], [cold], 1_700_000_060_000)
        send(Mail(by_mail(server.port)), alert)
        [mail] = server.mailbox.mails
    assert mail["To"] == "ann@example.org, bob@example.org"
    assert mail["From"] == "box@example.org"
    assert mail["Subject"] == "[rack1] Degraded: sda is hot: 61 °C (1 over)"
    assert mail["Auto-Submitted"] == "auto-generated"
    assert mail["Message-ID"] == f"<{alert.id}.cluster@appliance.invalid>"
    assert mail["Bcc"] is None
    text = mail.get_content().replace("\r\n", "\n")
    assert "What is wrong now:\n- degraded, disk: sda is hot: 61 °C (since 2023-11-14" in text
    assert "What is over:\n- failing, disk: sdb" in text
    assert "rack1, broker 1 of cluster cluster" in text


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


def server_tls(authority: Authority) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(authority.keystore())
    return context


def test_a_login_is_after_starttls_and_its_password_is_in_no_error(
    authority: Authority, tmp_path: Path
) -> None:
    path = secret(tmp_path / "password", SECRET)
    login = {"mail_security": "starttls", "mail_user": "box", "mail_password_file": path}
    server = MailServer(Mailbox(), tls=server_tls(authority), login=("box", SECRET))
    with server:
        told = why_not(Mail(by_mail(server.port, **login)))
        assert "certificate verify failed" in told  # its authority is nobody's here
        trusting = by_mail(server.port, **login, ca_file=authority.trust)
        send(Mail(trusting), of_test(1))
        assert (len(server.mailbox.mails), server.mailbox.names) == (1, [b"box"])
        secret(path, f"not {SECRET}")  # read anew, without a restart
        told = why_not(Mail(trusting))
        assert "535" in told
        assert SECRET not in told
        assert len(server.mailbox.mails) == 1


def test_nothing_is_sent_in_the_clear_where_tls_is_wanted() -> None:
    with MailServer(Mailbox()) as server:
        told = why_not(Mail(by_mail(server.port, mail_security="starttls")))
        assert "STARTTLS" in told
        assert server.mailbox.mails == []


def test_what_a_mail_server_refuses_is_told_in_its_words() -> None:
    with MailServer(Mailbox()) as server:
        server.mailbox.answer = "451 greylisted, come back"
        assert why_not(Mail(by_mail(server.port))).endswith(": 451 greylisted, come back")
    assert f"127.0.0.1:{server.port}: " in why_not(Mail(by_mail(server.port)))  # it is away


def test_one_refused_recipient_does_not_repeat_the_mail_for_others(tmp_path: Path) -> None:
    async def sent() -> None:
        with MailServer(Mailbox()) as server:
            server.mailbox.refused = "bob@example.org"
            config = by_mail(server.port, **FAST)
            async with Sending(tmp_path, config, Mail(config)) as outbox:
                outbox.put(*changes(1), [HOT])
                await until(lambda: states(outbox, "mail") == ["sent"])
                assert "refused bob@example.org" in outbox.alerts[0].deliveries["mail"].error
            assert len(server.mailbox.mails) == 1

    asyncio.run(sent())


def test_who_was_refused_is_known_until_all_take_a_mail_also_over_a_restart(
    tmp_path: Path,
) -> None:
    async def sent() -> None:
        with MailServer(Mailbox()) as server:
            config = by_mail(server.port, **FAST)
            server.mailbox.refused = "bob@example.org"
            async with Sending(tmp_path, config, Mail(config)) as outbox:
                outbox.put(*changes(1), [HOT])
                await until(lambda: states(outbox, "mail") == ["sent"])
                assert outbox.ways["mail"].refused.endswith("refused bob@example.org")
            async with Sending(tmp_path, config, Mail(config)) as outbox:
                assert outbox.ways["mail"].refused.endswith("refused bob@example.org")
                server.mailbox.refused = ""
                outbox.put(*changes(1), [HOT])
                await until(lambda: states(outbox, "mail") == ["sent"] * 2)
                assert outbox.ways["mail"].refused == ""

    asyncio.run(sent())


def test_a_server_that_hangs_is_left_in_time() -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()
        left.release()

    left = asyncio.Semaphore(0)

    async def tried() -> tuple[list[str], float]:
        server = await asyncio.start_server(silent, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        begin, found = time.monotonic(), []
        hook = by_hook(f"http://127.0.0.1:{port}/", timeout_ms=200)
        for channel in (Mail(by_mail(port, timeout_ms=200)), Webhook(hook)):
            with pytest.raises(NotSent) as refused:
                await channel.send(of_test(1), BOX)
            found.append(str(refused.value))
            await left.acquire()  # nothing of ours stays there
        server.close()
        return found, time.monotonic() - begin

    found, took_s = asyncio.run(tried())
    assert all("did not answer in 0.2 s" in each for each in found)
    assert took_s < DEADLINE_S


# webhook


def test_a_webhook_gets_signed_json(tmp_path: Path) -> None:
    path = secret(tmp_path / "secret", SECRET)
    with Hook() as hook:
        alert = of_change([HOT], [], 5)
        send(Webhook(by_hook(hook.url, webhook_secret_file=path)), alert)
        [(place, headers, body)] = hook.got
    found = json.loads(body)
    assert (place, found["id"], found["level"]) == ("/hook", alert.id, "degraded")
    assert found["text"] == "[rack1] Degraded: sda is hot: 61 °C"
    row = {"level": "degraded", "area": "disk", "text": HOT.text, "began_ms": HOT.began_ms}
    assert found["began"] == [row]
    at = headers["X-Appliance-Timestamp"]
    wanted = hmac.new(SECRET.encode(), f"{at}.".encode() + body, hashlib.sha256).hexdigest()
    assert headers["X-Appliance-Signature"] == f"sha256={wanted}"
    assert abs(int(at) - time.time()) < 60
    assert SECRET not in str(headers)


def test_redirects_are_not_followed_and_other_answers_are_told() -> None:
    with Hook() as inner, Hook() as hook:
        channel = Webhook(by_hook(hook.url))
        for status in (301, 302, 307, 308):
            hook.status, hook.location = status, inner.url
            assert f"{status}, and redirects are not followed" in why_not(channel)
        assert inner.got == []
        hook.status = 500
        assert why_not(channel).endswith("answered 500")


def test_an_address_that_is_a_secret_is_in_a_file_and_in_no_error(tmp_path: Path) -> None:
    with Hook() as hook:
        path = secret(tmp_path / "url", f"{hook.url}/T00/B00/XXXX")
        channel = Webhook(AlertsConfig(webhook_url_file=path))
        send(channel, of_test(1))
        assert hook.got[0][0] == "/hook/T00/B00/XXXX"
        hook.status = 404
        assert "XXXX" not in why_not(channel) + channel.target
    assert "XXXX" not in why_not(channel)  # it is away
    secret(path, "file:///etc/XXXX")
    assert "XXXX" not in why_not(channel)


def test_a_secret_that_others_may_read_is_not_used(tmp_path: Path) -> None:
    path = secret(tmp_path / "secret", SECRET, 0o640)
    with Hook() as hook:
        channel = Webhook(by_hook(hook.url, webhook_secret_file=path))
        told = why_not(channel)
        assert "has mode 0640" in told
        assert f"chmod 600 {path}" in told
        assert hook.got == []
        path.unlink()
        assert "No such file" in why_not(channel)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"webhook_url": "ftp://x/"}, "wanted https"),
        ({"webhook_url": "https://ann:pw@x/"}, "with a name or password"),
        ({"webhook_url": "https://x/", "webhook_url_file": Path("/x")}, "wanted one"),
        ({"mail_server": Address("mx", 25)}, "alerts.mail.from: got nothing"),
        ({"mail_to": Names(("ann",))}, "wanted NAME@HOST"),
        ({"mail_to": Names(("ann@x\nBcc: all@x",))}, "wanted NAME@HOST"),
        ({"mail_user": "ann"}, "wanted both or none"),
        ({"mail_server": Address("mx", 25), "mail_from": "a@x", "mail_to": Names(("b@x",)),
          "mail_security": "none", "mail_user": "a", "mail_password_file": Path("/x")},
         "could read the password"),
    ],
)  # fmt: skip
def test_settings_that_cannot_work_are_refused(given: dict[str, Any], told: str) -> None:
    is_mail = "mail_server" not in given and any(each.startswith("mail") for each in given)
    facts = {**MAIL, **given} if is_mail else given
    with pytest.raises(SettingInvalid, match=told) as refused:
        AlertsConfig(**facts)
    assert "pw" not in str(refused.value)


# the queue


class Sending:
    """An outbox whose channels send, in a catalog of its own."""

    def __init__(self, folder: Path, config: AlertsConfig, *channels: Channel) -> None:
        self._catalog = Catalog.open(folder / "catalog.db")
        self.rows = AlertRows(self._catalog)
        self.outbox = Outbox(config, channels, self.rows, BOX, lambda: time.time_ns() // 10**6)

    async def __aenter__(self) -> Outbox:
        ways = self.outbox.ways.values()
        self._tasks = [asyncio.create_task(self.outbox.deliver(each)) for each in ways]
        return self.outbox

    async def __aexit__(self, *_: object) -> None:
        for each in self._tasks:
            each.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.outbox.close()
        self._catalog.close()


async def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < end
        await asyncio.sleep(0.01)


def changes(count: int) -> list[Alert]:
    now_ms = time.time_ns() // 10**6
    return [of_change([HOT], [], now_ms + number) for number in range(count)]


def states(outbox: Outbox, channel: str) -> list[str]:
    return [each.deliveries[channel].state for each in outbox.alerts]


def stored(folder: Path) -> list[str]:
    with closing(Catalog.open(folder / "catalog.db")) as catalog:
        return [each.id for each in AlertRows(catalog).all()]


def ids(hook: Hook) -> list[str]:
    return [json.loads(body)["id"] for _, _, body in hook.got]


def test_a_server_that_is_away_gets_all_in_order_when_it_is_back(tmp_path: Path) -> None:
    port = free_port()
    config = by_hook(f"http://127.0.0.1:{port}/hook", **FAST)

    async def sent() -> None:
        alerts = changes(3)
        async with Sending(tmp_path, config, Webhook(config)) as outbox:
            for each in alerts:
                outbox.put(each, [HOT])
            await until(lambda: bool(outbox.ways["webhook"].fault))
            assert states(outbox, "webhook") == ["waiting"] * 3
            with Hook(port) as hook:
                await until(lambda: states(outbox, "webhook") == ["sent"] * 3)
                assert ids(hook) == [each.id for each in alerts]
            assert outbox.ways["webhook"].fault == ""

    asyncio.run(sent())


def test_what_waits_goes_out_after_a_restart(tmp_path: Path) -> None:
    port = free_port()
    config = by_hook(f"http://127.0.0.1:{port}/hook", **FAST)

    async def before() -> str:
        async with Sending(tmp_path, config, Webhook(config)) as outbox:
            [alert] = changes(1)
            outbox.put(alert, [HOT])
            await until(lambda: alert.deliveries["webhook"].tries > 0)
            return alert.id

    async def after() -> list[str]:
        sending = Sending(tmp_path, config, Webhook(config))
        assert sending.rows.conditions() == [HOT]
        with Hook(port) as hook:
            async with sending as outbox:
                assert outbox.alerts[0].began == (HOT,)
                await until(lambda: states(outbox, "webhook") == ["sent"])
            async with Sending(tmp_path, config, Webhook(config)) as outbox:
                assert states(outbox, "webhook") == ["sent"]
            return ids(hook)

    was = asyncio.run(before())
    assert asyncio.run(after()) == [was]


def test_one_channel_that_hangs_holds_no_other(tmp_path: Path) -> None:
    async def sent() -> None:
        with Hook() as hook, MailServer(Mailbox()) as server:
            hook.goes_on.clear()
            config = by_mail(server.port, webhook_url=hook.url, **FAST)
            async with Sending(tmp_path, config, Mail(config), Webhook(config)) as outbox:
                for each in changes(2):
                    outbox.put(each, [HOT])
                await until(lambda: states(outbox, "mail") == ["sent"] * 2)
                assert states(outbox, "webhook") == ["waiting"] * 2

    asyncio.run(sent())


def test_the_queue_is_bounded_by_number_and_by_age(tmp_path: Path) -> None:
    async def sent() -> None:
        url = f"http://127.0.0.1:{free_port()}/"
        config = by_hook(url, queue_max=3, kept_max=5, give_up_ms=1000, **FAST)
        async with Sending(tmp_path, config, Webhook(config)) as outbox:
            for each in changes(9):
                outbox.put(each, [])
            assert states(outbox, "webhook") == ["failed"] * 2 + ["waiting"] * 3
            assert "3 others waited" in outbox.alerts[0].deliveries["webhook"].error
            await until(lambda: states(outbox, "webhook") == ["failed"] * 5)
            assert "Cannot connect" in outbox.alerts[4].deliveries["webhook"].error
            assert outbox.ways["webhook"].failed == 9
        async with Sending(tmp_path, config, Webhook(config)) as outbox:
            assert states(outbox, "webhook") == ["failed"] * 5

    asyncio.run(sent())


def bodies(hook: Hook) -> list[dict[str, Any]]:
    return [json.loads(body) for _, _, body in hook.got]


def test_what_still_holds_is_told_when_what_told_of_it_was_given_up(tmp_path: Path) -> None:
    """Also without a change that would be told, and of the channel that missed it only."""
    port = free_port()
    url = f"http://127.0.0.1:{port}/hook"

    async def sent() -> None:
        with MailServer(Mailbox()) as server:
            config = by_mail(server.port, webhook_url=url, give_up_ms=1000, **FAST)
            async with Sending(tmp_path, config, Mail(config), Webhook(config)) as outbox:
                outbox.look({HOT.key})
                [alert] = changes(1)
                outbox.put(alert, [HOT])
                await until(lambda: alert.deliveries["webhook"].state == "failed")
                with Hook(port) as hook:
                    await until(lambda: outbox.alerts[-1].deliveries["webhook"].state == "sent")
                    await asyncio.sleep(0.1)
                    [told] = bodies(hook)
                assert (told["began"][0]["text"], told["ended"]) == (HOT.text, [])
                assert alert.deliveries["webhook"].state == "failed"
                await until(lambda: alert.deliveries["mail"].state == "sent")
                assert len(server.mailbox.mails) == 1

    asyncio.run(sent())


def test_a_full_queue_is_followed_by_what_still_holds(tmp_path: Path) -> None:
    port = free_port()
    config = by_hook(f"http://127.0.0.1:{port}/hook", queue_max=2, **FAST)

    async def sent() -> None:
        over = of_change([], [HOT], time.time_ns() // 10**6 + 10)
        cold = Condition("cold", "degraded", "disk", "sdb is cold", 5)
        async with Sending(tmp_path, config, Webhook(config)) as outbox:
            outbox.look({HOT.key, cold.key})
            for each in changes(3):
                outbox.put(each, [HOT, cold])
            outbox.put(over, [cold])
            with Hook(port) as hook:
                await until(lambda: len(hook.got) == 3)
                first, second, last = bodies(hook)
        assert (first["id"], second["id"]) == (outbox.alerts[2].id, over.id)
        assert [each["text"] for each in last["began"]] == ["sdb is cold"]

    asyncio.run(sent())


@pytest.mark.parametrize("is_over", [False, True])
def test_what_was_given_up_before_a_restart_is_told_after_it(
    tmp_path: Path, is_over: bool
) -> None:
    """If it holds still: whoever restarted the broker may have mended it."""
    port = free_port()
    config = by_hook(f"http://127.0.0.1:{port}/hook", **FAST)

    async def sent() -> None:
        [alert] = changes(1)
        alert.deliveries["webhook"] = Delivery("failed", 9, 1, "it was away")
        before = Sending(tmp_path, config)
        before.rows.put([alert], [HOT], 10)
        async with before:
            pass
        with Hook(port) as hook:
            async with Sending(tmp_path, config, Webhook(config)) as outbox:
                await asyncio.sleep(0.1)
                assert states(outbox, "webhook") == ["failed"], "nobody has looked yet"
                outbox.look(set() if is_over else {HOT.key})
                await until(lambda: not outbox.ways["webhook"].owes)
                await until(lambda: outbox.waiting("webhook") == [])
            async with Sending(tmp_path, config, Webhook(config)) as outbox:
                outbox.look({HOT.key})
                await until(lambda: not outbox.ways["webhook"].owes)
                await until(lambda: outbox.waiting("webhook") == [])
                await asyncio.sleep(0.1)
            told = [each["began"][0]["text"] for each in bodies(hook)]
        assert told == [HOT.text]

    asyncio.run(sent())


def test_alerts_go_out_when_the_catalog_takes_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a full disk, which is what one wants to hear of."""

    async def sent() -> None:
        with Hook() as hook:
            config = by_hook(hook.url, **FAST)
            sending = Sending(tmp_path, config, Webhook(config))
            refuses = True
            put = sending.rows.put

            def full(*given: Any) -> None:
                if refuses:
                    raise StorageFull("the disk is full")
                put(*given)

            monkeypatch.setattr(sending.rows, "put", full)
            async with sending as outbox:
                first, second = changes(2)
                outbox.put(first, [HOT])
                await until(lambda: states(outbox, "webhook") == ["sent"])
                assert sending.rows.all() == []
                refuses = False
                outbox.put(second, [HOT])
                await until(lambda: states(outbox, "webhook") == ["sent"] * 2)
            assert stored(tmp_path) == [first.id, second.id]

    asyncio.run(sent())


def test_a_disk_that_hangs_holds_no_alert(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor does it hold what is told after it."""
    goes_on = threading.Event()

    async def sent() -> None:
        loop = asyncio.get_running_loop()
        others = [loop.run_in_executor(None, goes_on.wait) for _ in range(64)]  # as of the broker
        with Hook() as hook:
            config = by_hook(hook.url, **FAST)
            sending = Sending(tmp_path, config, Webhook(config))
            put = sending.rows.put
            monkeypatch.setattr(sending.rows, "put", lambda *given: goes_on.wait() and put(*given))
            async with sending as outbox:
                try:
                    for each in changes(3):
                        outbox.put(each, [HOT])
                        await until(lambda: set(states(outbox, "webhook")) == {"sent"})
                finally:
                    goes_on.set()
            await asyncio.gather(*others)
            assert stored(tmp_path) == ids(hook)
            assert len(ids(hook)) == 3

    asyncio.run(sent())


def test_an_older_build_goes_on_with_what_it_knows_of_stored_alerts(tmp_path: Path) -> None:
    catalog = Catalog.open(tmp_path / "catalog.db")
    rows, (alert,) = AlertRows(catalog), changes(1)
    rows.put([alert], [HOT], 10)
    for table, column in (("alerts", "alert"), ("alert_conditions", "condition")):
        change = f"UPDATE {table} SET {column} = json_set({column}, '$.newer', 1)"
        catalog.run(change, ())
    assert (rows.all(), rows.conditions()) == ([alert], [HOT])
    catalog.close()
