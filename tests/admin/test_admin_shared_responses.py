"""Lists are made once for all consoles, and again at once when what they tell is changed."""

from __future__ import annotations

import asyncio
import gzip
import json
import threading
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from appliance.admin import partition_snapshot, shared_responses, topics
from appliance.admin.shared_responses import Body, Shared
from appliance.broker.broker import Broker
from appliance.errors import ApplianceError
from appliance.testing import RunningBroker
from tests.support.rest import PREFIX, Rest

DEADLINE_S = 20.0


@pytest.fixture
def rest(appliance_broker: RunningBroker) -> Rest:
    return Rest(appliance_broker.admin)


class Maker:
    """Says how often it was asked."""

    def __init__(self) -> None:
        self.count = 0
        self.may_end = asyncio.Event()

    async def __call__(self) -> dict[str, Any]:
        self.count += 1
        own = self.count
        await self.may_end.wait()
        return {"count": own}


def run(job: Callable[[Shared, Maker], Coroutine[Any, Any, None]]) -> None:
    async def running() -> None:
        await job(Shared(), Maker())

    asyncio.run(running())


def count(body: Body) -> int:
    told = json.loads(body.plain)
    assert json.loads(gzip.decompress(body.zipped)) == told
    found: int = told["count"]
    return found


def test_all_who_ask_at_a_time_share_one_answer() -> None:
    async def job(kept: Shared, make: Maker) -> None:
        asked = [asyncio.ensure_future(kept.body("topics", 1, make)) for _ in range(20)]
        await asyncio.sleep(0)
        make.may_end.set()
        assert {count(each) for each in await asyncio.gather(*asked)} == {1}
        assert count(await kept.body("topics", 1, make)) == 1
        assert count(await kept.body("groups", 1, make)) == 2

    run(job)


def test_a_change_is_seen_by_who_asks_after_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_responses, "FRESH_SECONDS", 60.0)

    async def job(kept: Shared, make: Maker) -> None:
        before = asyncio.ensure_future(kept.body("topics", 1, make))
        await asyncio.sleep(0)
        after = asyncio.ensure_future(kept.body("topics", 2, make))
        await asyncio.sleep(0)
        kept.forget()
        last = asyncio.ensure_future(kept.body("topics", 2, make))
        await asyncio.sleep(0)
        make.may_end.set()
        assert [count(await each) for each in (before, after, last)] == [1, 2, 3]
        assert count(await kept.body("topics", 3, make)) == 4

    run(job)


def test_an_answer_grows_old(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_responses, "FRESH_SECONDS", 0.0)
    monkeypatch.setattr(shared_responses, "SHARE", 1e9)

    async def job(kept: Shared, make: Maker) -> None:
        make.may_end.set()
        assert count(await kept.body("topics", 1, make)) == 1
        assert count(await kept.body("topics", 1, make)) == 2

    run(job)


def test_what_is_long_in_the_making_is_kept_for_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_responses, "FRESH_SECONDS", 0.0)
    monkeypatch.setattr(shared_responses, "SHARE", 1e-9)
    monkeypatch.setattr(shared_responses, "AGE_SECONDS_MAX", 60.0)

    async def job(kept: Shared, make: Maker) -> None:
        make.may_end.set()
        assert count(await kept.body("topics", 1, make)) == 1
        assert count(await kept.body("topics", 1, make)) == 1

    run(job)


def test_a_refusal_is_told_to_all_and_not_kept() -> None:
    async def refuse() -> dict[str, Any]:
        raise ApplianceError("not now")

    async def job(kept: Shared, make: Maker) -> None:
        asked = [kept.body("topics", 1, refuse) for _ in range(3)]
        for each in await asyncio.gather(*asked, return_exceptions=True):
            assert str(each) == "not now"
        make.may_end.set()
        assert count(await kept.body("topics", 1, make)) == 1

    run(job)


def test_as_many_are_kept_as_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_responses, "FRESH_SECONDS", 60.0)

    async def job(kept: Shared, make: Maker) -> None:
        make.may_end.set()
        for number in range(shared_responses.BODIES_MAX + 5):
            await kept.body(number, 1, make)
        made = make.count
        await kept.body(0, 1, make)
        assert make.count == made
        await kept.body(shared_responses.BODIES_MAX, 1, make)
        assert make.count == made + 1

    run(job)


@pytest.mark.parametrize(
    "told",
    [
        {},
        {"total": 0, "topics": []},
        {"topics": [{"name": f"ü{each}"} for each in range(shared_responses.SLICE_ROWS)]},
        {"total": 3, "topics": [*range(2 * shared_responses.SLICE_ROWS + 1)],
         "unavailable": {"a": None}},
    ],
    ids=["nothing", "no row", "one slice", "three slices"],
)
def test_slices_make_the_same_json(told: dict[str, Any]) -> None:
    async def whole() -> bytes:
        return b"".join([part async for part in shared_responses.encoded(told)])

    assert asyncio.run(whole()).decode() == json.dumps(told)


# From a running broker


def test_twenty_consoles_cost_as_much_as_one(rest: Rest, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (shared_responses, partition_snapshot):
        monkeypatch.setattr(module, "FRESH_SECONDS", 60.0)
    rows: list[str] = []
    real = topics.topic_row

    def counted(broker: Broker, topic: Any, *facts: Any) -> topics.TopicRow:
        rows.append(topic.name)
        return real(broker, topic, *facts)

    rest.post("/topics", {"name": "orders"})
    monkeypatch.setattr(topics, "topic_row", counted)
    asking = [threading.Thread(target=rest.get, args=("/topics",)) for _ in range(20)]
    for each in asking:
        each.start()
    for each in asking:
        each.join(DEADLINE_S)
    assert rows == ["orders"]


def test_what_was_made_or_deleted_is_in_the_next_list(
    rest: Rest, appliance_broker: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (shared_responses, partition_snapshot):
        monkeypatch.setattr(module, "FRESH_SECONDS", 60.0)

    def names() -> list[str]:
        return [each["name"] for each in rest.get("/topics")["topics"]]

    assert names() == []
    rest.post("/topics", {"name": "over-rest"})
    assert names() == ["over-rest"]
    admin = AdminClient({"bootstrap.servers": appliance_broker.bootstrap})
    admin.create_topics([NewTopic("by-kafka", 2, 1)])["by-kafka"].result(DEADLINE_S)
    assert names() == ["by-kafka", "over-rest"]
    assert rest.ask("PATCH", "/topics/over-rest", {"partitions": 7}).status == 200
    assert [each["partitions"] for each in rest.get("/topics")["topics"]] == [2, 7]
    admin.delete_topics(["by-kafka"])["by-kafka"].result(DEADLINE_S)
    assert names() == ["over-rest"]


def test_groups_that_came_or_went_are_in_the_next_list(
    rest: Rest, appliance_broker: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_responses, "FRESH_SECONDS", 60.0)
    rest.post("/topics", {"name": "orders"})
    assert rest.get("/groups")["groups"] == []
    consumer = Consumer({"bootstrap.servers": appliance_broker.bootstrap, "group.id": "readers"})
    consumer.commit(offsets=[TopicPartition("orders", 0, 0)], asynchronous=False)
    assert [each["group"] for each in rest.get("/groups")["groups"]] == ["readers"]
    consumer.close()
    assert rest.ask("DELETE", "/groups/readers").status == 204
    assert rest.get("/groups")["groups"] == []


def test_a_list_is_compressed_for_who_takes_it(rest: Rest) -> None:
    rest.post("/topics", {"name": "orders"})
    plain = rest.raw("GET", f"{PREFIX}/topics")
    zipped = rest.raw("GET", f"{PREFIX}/topics", Accept_Encoding="gzip")
    assert zipped.headers["Content-Encoding"] == "gzip"
    assert "Content-Encoding" not in plain.headers
    assert [each["name"] for each in plain.body["topics"]] == ["orders"]
