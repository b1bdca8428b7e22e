"""Records that the broker has lost: no read and no export passes them unsaid, wherever its streams
break. A segment of the log is gone; no test needs a JVM."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import confluent_kafka as ck
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from appliance_spark import (
    export_balance,
    export_manifest,
    export_run,
    export_tasks,
    export_verify,
)
from appliance_spark.endpoint import Endpoint
from appliance_spark.export_broker import AdminPort
from appliance_spark.export_layout import ExportFailed, FolderStaging, Target
from appliance_spark.export_plan import Wanted
from appliance_spark.export_tasks import Reading
from appliance_spark.export_write import Writing
from appliance_spark.fetching import Fetching, Source, read_frame
from appliance_spark.planning import DataLost, Split
from tests.spark.test_spark_fetching import WANTED, BadLine
from tests.support.exporting import rows_in
from tests.support.warm_broker import WarmBroker as Broker

DEADLINE_S = 30.0
TOPIC, RECORDS, BATCH = "plain", 40, 10
HEADERS_MAX = 1000  # of an answer, in bytes: less than a segment has


class Holed(NamedTuple):
    broker: Broker
    hole: list[int]  # its first offset, and the one behind it
    breaks_at: int  # bytes of an answer that has passed the hole, and ends in the next segment

    @property
    def left(self) -> list[int]:
        return [each for each in range(RECORDS) if not self.hole[0] <= each < self.hole[1]]


@pytest.fixture(scope="module")
def holed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Holed]:
    data = tmp_path_factory.mktemp("holes") / "data"
    with Broker(data) as made:
        send(made)
    sorted((data / f"{TOPIC}-0").glob("*.log"))[1].unlink()
    with Broker(data) as made:
        endpoint = Endpoint(f"http://{made.admin}", "", 0)
        plan = endpoint.plan(TOPIC, "earliest", "latest", 0, "read_committed")
        path, size = f"/export/v1/topics/{TOPIC}/partitions/0/batches", 0
        with endpoint.opened(path, {"start": 0, "end": RECORDS}) as (_, answer):
            for _ in range(2):
                size += len(read_frame(answer))
        (hole,) = plan["partitions"][0]["holes"]
        yield Holed(made, hole, size + HEADERS_MAX)


def send(broker: Broker) -> None:
    address = {"bootstrap.servers": broker.kafka, "log_level": 0}
    admin = AdminClient(address)
    topic = NewTopic(TOPIC, 1, 1, config={"segment.bytes": "20000"})
    admin.create_topics([topic])[TOPIC].result(DEADLINE_S)
    producer = ck.Producer(address)
    for number in range(RECORDS):
        producer.produce(TOPIC, b"%d " % number * 500)
        if number % BATCH == BATCH - 1:
            assert producer.flush(DEADLINE_S) == 0


@pytest.fixture
def line(holed: Holed) -> Iterator[BadLine]:
    """Its first answer breaks behind the hole, so that no trailer tells of it."""
    made = BadLine(holed.broker.export, [holed.breaks_at])
    yield made
    made.close()


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("appliance_spark.endpoint.BACKOFF_S", 0.01)


def offsets(url: str, fails: bool, passes_holes: bool) -> list[int]:
    source = Source(Endpoint(url, "", 4), "read_committed", fails, WANTED, passes_holes)
    found = Fetching(source, Split(TOPIC, 0, 0, RECORDS)).batches()
    return [offset for batch in found for offset in batch.column("offset").to_pylist()]


def told(holed: Holed) -> str:
    return rf"offsets \[\[{holed.hole[0]}, {holed.hole[1]}\]\] are damaged or gone"


def test_a_read_that_broke_behind_a_hole_fails_nevertheless(holed: Holed, line: BadLine) -> None:
    with pytest.raises(DataLost, match=told(holed)):
        offsets(line.url, True, False)
    assert line.connections > 1


@pytest.mark.parametrize(("fails", "passes_holes"), [(False, False), (True, True)])
def test_who_passes_holes_reads_what_is_left(
    holed: Holed, line: BadLine, fails: bool, passes_holes: bool
) -> None:
    assert offsets(line.url, fails, passes_holes) == holed.left


# Exports

def written(url: str, passes_holes: bool, tmp_path: Path) -> dict[str, Any]:
    task = {"topic": TOPIC, "topic_id": "", "partition": 0, "from": 0, "to": RECORDS,
            "schema": {"mode": "raw"}}
    reading = Reading(url, None, 4, "read_committed", passes_holes=passes_holes)
    found: dict[str, Any] = export_tasks.write(
        reading, FolderStaging(str(tmp_path)), Writing("timestamp"), task)
    return found


def test_offsets_of_a_hole_are_not_compacted(
    holed: Holed, line: BadLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where the hole is new, and the plan of the reader did not know it yet."""
    monkeypatch.setattr(Fetching, "_check_behind_breaks", lambda self: None)
    with pytest.raises(DataLost, match=told(holed)):
        written(line.url, False, tmp_path)


def test_where_loss_is_accepted_damaged_offsets_are_counted(
    holed: Holed, line: BadLine, tmp_path: Path
) -> None:
    done = written(line.url, True, tmp_path)
    size = holed.hole[1] - holed.hole[0]
    assert (done["rows"], done["gone"]) == (RECORDS - size, {
        "markers": 0, "aborted": 0, "compacted": 0, "damaged": size,
        "damaged_ranges": [holed.hole], "in_no_batch": 0})


def test_what_nothing_accounts_for_fails_a_run_of_a_topic_that_is_not_compacted(
    holed: Holed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a leader's hole that an operator lets readers pass: of that no trailer tells."""
    frames = export_tasks._frames
    monkeypatch.setattr(export_tasks, "_frames", lambda *given: (
        {**each, "holes": []} if isinstance(each, dict) else each for each in frames(*given)))
    done = written(f"http://{holed.broker.export}", True, tmp_path)
    size = holed.hole[1] - holed.hole[0]
    assert (done["gone"]["compacted"], done["gone"]["in_no_batch"]) == (size, size)
    part = {"topic": TOPIC, "partition": 0, "from": 0, "to": RECORDS, "in_no_batch": size}
    export_balance.check_compacted([part], lambda topic: True)
    port = AdminPort(holed.broker.admin)
    with pytest.raises(ExportFailed, match=f"{size} offsets from 0 to 40 are not in the log"):
        export_balance.check_compacted([part], port.is_compacted)


def no_session() -> Any:
    return None


@pytest.fixture
def run(
    holed: Holed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., dict[str, Any]]:
    """With its tasks in this process."""
    monkeypatch.setattr(
        export_tasks, "spread", lambda spark, tasks, work: [work(task) for task in tasks])
    target = Target(tmp_path / "lake")

    def run(**wanted: Any) -> dict[str, Any]:
        job = export_run.Job(target, AdminPort(holed.broker.admin), Wanted((TOPIC,), **wanted),
                             begins=not target.exists())
        return export_run.run(job, no_session, lambda text: None)

    return run


def test_an_export_goes_on_behind_a_hole_when_the_loss_is_accepted(
    holed: Holed, run: Callable[..., dict[str, Any]], tmp_path: Path
) -> None:
    with pytest.raises(ExportFailed, match=told(holed) + r".*--accept-loss goes on"):
        run()
    target = Target(tmp_path / "lake")
    (part,) = run(accept_loss=True)["partitions"]
    assert part["damaged"] == [holed.hole]
    assert sorted(offset for _, offset, *_ in rows_in(target.root)) == holed.left
    (loss,) = export_manifest.load(target)["topics"][TOPIC]["losses"]
    assert (loss["partition"], loss["damaged"]) == (0, [holed.hole])
    verdict = export_verify.verify(target, no_session, AdminPort(holed.broker.admin), 3)
    assert (verdict.problems, verdict.rows_compared) == ([], len(holed.left))
    assert run()["rows"] == 0  # the hole is behind it
