"""What mirrors say of themselves, and what a broker makes of it."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from appliance.admin import mirrors
from appliance.cli.main import main
from appliance.mirror import progress as mirror_progress
from appliance.mirror.config import MirrorConfig
from appliance.mirror.mirror import Mirror
from appliance.mirror.progress import MirrorProgress, Partition
from appliance.mirror.reporter import Reporter
from appliance.mirror.site import TopicPartition
from appliance.testing import RunningBroker, running_broker
from tests.support.rest import Rest
from tests.support.zookeeper import eventually

REPORT: dict[str, Any] = {
    "source": "site:9092", "state": "mirroring", "interval_s": 10.0, "records": 100, "bytes": 5000,
    "failures": 0, "last_failure": "", "refused": {},
    "rows": [
        {"topic": "t", "partition": 0, "position": 40, "end_offset": 50, "lag": 10,
         "lost_offsets": 3, "behind_s": 2.5},
        {"topic": "t", "partition": 1, "position": 60, "end_offset": 60, "lag": 0,
         "lost_offsets": 0, "behind_s": 0.0},
    ],
}  # fmt: skip


@pytest.fixture
def rest(appliance_broker: RunningBroker) -> Rest:
    found = Rest(appliance_broker.admin)
    for name in ("t", "u"):
        found.post("/topics", {"name": name, "configs": {"mirror.source": "abc/def"}})
    found.post("/topics", {"name": "own"})
    return found


def told(rest: Rest, **changed: Any) -> dict[str, Any]:
    """What is shown after a report: by topic, and of the mirror itself as ""."""
    assert rest.ask("PUT", "/mirrors/site", {**REPORT, **changed}).status == 200
    answer = rest.get("/mirrors")
    return {"": answer["mirrors"][0], **{each["topic"]: each for each in answer["topics"]}}


def test_without_a_report_topics_are_known_by_their_source(rest: Rest) -> None:
    answer = rest.get("/mirrors")
    assert answer["mirrors"] == []
    assert [(each["topic"], each["source"], each["state"], each["lag_records"])
            for each in answer["topics"]] == [("t", "abc/def", "not reported", None),
                                              ("u", "abc/def", "not reported", None)]


def test_lag_and_losses_are_what_the_mirror_said(rest: Rest) -> None:
    found = told(rest)
    assert {key: found["t"][key] for key in ("state", "lag_records", "lag_s", "lost_offsets")} == {
        "state": "behind", "lag_records": 10, "lag_s": 2.5, "lost_offsets": 3}
    assert (found[""]["mirror"], found[""]["state"], found[""]["topics"]) == ("site", "behind", 1)
    assert (found["u"]["state"], found["t"]["mirror"]) == ("not reported", "site")


@pytest.mark.parametrize(
    ("changed", "state", "failure"),
    [
        ({"rows": [{**each, "lag": 0} for each in REPORT["rows"]]}, "caught up", ""),
        ({"state": "no link", "last_failure": "timed out"}, "no link", "timed out"),
        ({"refused": {"t": "made anew"}}, "refused", "made anew"),
        ({"refused": {"t-1": "damaged"}}, "refused", "damaged"),
        ({"refused": {"t-10": "damaged"}}, "behind", ""),
        ({"state": "ended"}, "ended", ""),
    ],
)
def test_what_becomes_of_a_topic(
    rest: Rest, changed: dict[str, Any], state: str, failure: str
) -> None:
    found = told(rest, **changed)["t"]
    assert (found["state"], found["failure"]) == (state, failure)


def test_who_reports_no_longer_is_silent(
    rest: Rest, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert told(rest)["t"]["state"] == "behind"
    monkeypatch.setattr(mirrors, "SILENT_INTERVALS", -1)
    found = told(rest)
    assert (found["t"]["state"], found[""]["state"]) == ("silent", "silent")
    assert rest.ask("DELETE", "/mirrors/site").status == 204
    assert rest.get("/mirrors")["mirrors"] == []
    assert rest.refused("DELETE", "/mirrors/site")[0] == 404


def test_what_is_kept_of_reports_is_bounded(
    rest: Rest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mirrors, "ROWS_MAX", 4)
    short = {**REPORT, "refused": {}}
    for name in ("a", "b", "a"):
        assert rest.ask("PUT", f"/mirrors/{name}", short).status == 200
    assert rest.refused("PUT", "/mirrors/c", short) == (400, "invalid_request")
    assert rest.refused("PUT", "/mirrors/a", {**short, "refused": {"t": "x"}})[0] == 400
    long = "x" * (mirrors.TEXT_MAX + 1)
    for changed in ({"source": long}, {"refused": {long: ""}}, {"refused": {"t": long}}):
        assert rest.refused("PUT", "/mirrors/a", {**short, "rows": [], **changed})[0] == 400


def test_reports_are_not_in_the_audit_trail_and_not_without_end(rest: Rest) -> None:
    for number in range(mirrors.MIRRORS_MAX):
        assert rest.ask("PUT", f"/mirrors/m{number}", REPORT).status == 200
    assert rest.refused("PUT", "/mirrors/more", REPORT) == (400, "invalid_request")
    actions = {each["action"] for each in rest.get("/audit")["entries"]}
    assert not [each for each in actions if "mirrors" in each]


def test_a_partition_is_as_old_as_when_it_had_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    monkeypatch.setattr(mirror_progress.time, "time", lambda: now[0])
    progress, place = MirrorProgress(), TopicPartition("t", 0)
    progress.begin({place: 5})
    found: Partition = progress.of(place)
    progress.saw(place, 5, 5)
    now[0] += 10
    progress.saw(place, 8, -1)
    assert (found.lag, found.behind_s) == (3, 0.0)  # what came is younger than the last look
    now[0] += 10
    assert found.behind_s == 10.0
    progress.wrote(place, 7, 2, 100)
    assert found.behind_s == 10.0
    progress.wrote(place, 8, 1, 100)
    now[0] += 5
    assert found.behind_s == 0.0


# A real mirror


@pytest.fixture
def source(tmp_path: Path) -> Iterator[RunningBroker]:
    with running_broker(tmp_path / "source") as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        admin.create_topics([NewTopic("alarms", 2)])["alarms"].result(20)
        producer = Producer({"bootstrap.servers": broker.bootstrap})
        for number in range(50):
            producer.produce("alarms", str(number), partition=number % 2)
        assert producer.flush(20) == 0
        yield broker


def mirrored(source: RunningBroker, target: RunningBroker, *more: str, **environment: str) -> Any:
    line = ["mirror", "--from", source.bootstrap, "--to", target.bootstrap, "--topics", "alarms",
            "--name", "site", "--once", "--report", target.admin, *more]
    return CliRunner().invoke(main, line, env=environment)


def test_a_mirror_says_how_far_it_is(
    source: RunningBroker, appliance_broker: RunningBroker
) -> None:
    result = mirrored(source, appliance_broker)
    assert result.exit_code == 0, result.output
    answer = Rest(appliance_broker.admin).get("/mirrors")
    (mirror,), (topic,) = answer["mirrors"], answer["topics"]
    assert (mirror["state"], mirror["records"], mirror["lag_records"]) == ("ended", 50, 0)
    assert mirror["source"] == source.bootstrap
    assert (topic["topic"], topic["mirror"], topic["end_offset"]) == ("alarms", "site", 50)
    assert topic["last_write_ms"] is not None


def troubles(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [vars(each)["facts"]["error"] for each in caplog.records if each.msg == "no report"]


def test_a_report_needs_the_right_to_make_it_and_the_mirror_goes_on_without(
    source: RunningBroker, appliance_broker: RunningBroker, caplog: pytest.LogCaptureFixture
) -> None:
    rest = Rest(appliance_broker.admin)
    setup = {"token": appliance_broker.setup_secret, "name": "ada", "password": "a long password"}
    cookie = rest.ask("POST", "/setup", setup).headers["Set-Cookie"].partition(";")[0]
    ada = Rest(appliance_broker.admin, {"Cookie": cookie})
    result = mirrored(source, appliance_broker)
    assert (result.exit_code, "login_required" in troubles(caplog)[0]) == (0, True)
    assert ada.get("/mirrors")["mirrors"] == []
    token = ada.post("/tokens", {"name": "mirror", "role": "operator"})["token"]
    assert mirrored(source, appliance_broker, APPLIANCE_TOKEN=token).exit_code == 0
    assert [each["state"] for each in ada.get("/mirrors")["mirrors"]] == ["ended"]


def test_a_mirror_is_paused_and_goes_on(
    source: RunningBroker, appliance_broker: RunningBroker
) -> None:
    rest = Rest(appliance_broker.admin)
    made = Mirror(MirrorConfig(source=source.bootstrap, target=appliance_broker.bootstrap,
                               topics="alarms", name="site"))  # fmt: skip
    reporter = Reporter(appliance_broker.admin, None, made)
    running = threading.Thread(target=made.run)
    running.start()

    def until(records: int) -> None:
        deadline = time.monotonic() + 20
        while sum(each["end_offset"] for each in rest.get("/mirrors")["topics"]) < records:
            assert time.monotonic() < deadline
            time.sleep(0.05)

    try:
        until(50)
        reporter.report("mirroring", 10.0)
        assert not made.is_suspended
        row = rest.ask("PATCH", "/mirrors/site", {"is_paused": True}).body
        assert (row["state"], row["is_paused"]) == ("pausing", True)
        reporter.report("mirroring", 10.0)
        assert made.is_suspended
        reporter.report("paused", 10.0)
        assert [each["state"] for each in rest.get("/mirrors")["topics"]] == ["paused"]
        eventually(lambda: not made._ending.is_set())  # the round is over
        producer = Producer({"bootstrap.servers": source.bootstrap})
        for _ in range(10):
            producer.produce("alarms", b"x", partition=0)
        assert producer.flush(20) == 0
        time.sleep(1.0)
        (topic,) = rest.get("/mirrors")["topics"]
        assert topic["end_offset"] == 50
        rest.ask("PATCH", "/mirrors/site", {"is_paused": False})
        reporter.report("paused", 10.0)
        until(60)
    finally:
        made.stop()
        running.join()


def test_a_broker_that_starts_anew_believes_a_mirror_that_it_is_paused(rest: Rest) -> None:
    told(rest, state="paused")
    assert rest.ask("PUT", "/mirrors/site", REPORT).body == {"is_paused": True}
    assert rest.get("/mirrors")["mirrors"][0]["state"] == "pausing"
    assert rest.refused("PATCH", "/mirrors/other", {"is_paused": True})[0] == 404


def test_a_mirror_that_was_paused_goes_on_at_once_or_ends(source: RunningBroker) -> None:
    """Whatever comes while a round is being ended."""
    made = Mirror(MirrorConfig(source=source.bootstrap, target="127.0.0.1:1", topics="alarms"))
    for is_suspended in (True, False):
        made.suspend(is_suspended)
    assert made._may_begin()
    made.suspend(True)
    stopping = threading.Timer(0.3, made.stop)
    stopping.start()
    assert not made._may_begin()
    stopping.join()


def test_trouble_with_reports_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    mirror = Mirror(MirrorConfig(source="127.0.0.1:1", target="127.0.0.1:1", topics="t"))
    reporter = Reporter("127.0.0.1:1", None, mirror)
    for _ in range(3):
        reporter.report("mirroring", 10.0)
    assert len(troubles(caplog)) == 1
