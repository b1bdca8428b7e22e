"""Following a topic that is written faster than a page can draw."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from playwright.sync_api import Page, expect

from appliance.testing import RunningBroker
from tests.console.conftest import WAIT_S, Console, delivered
from tests.support.logs import until
from tests.support.rest import Rest

RATE = 500  # messages a second
WANTED = 2000  # shown or skipped messages before the check: four seconds
DRAWN_PER_S = 4  # following.js draws after a pause of 250 ms
ROWS_MAX = 500

# The number and the duration of drawings: each drawing is one call.
COUNTED = """() => {
  window.drawn = { times: 0, begun: performance.now() };
  new MutationObserver(() => { window.drawn.times++; })
    .observe(document.querySelector("#messages tbody"), { childList: true });
}"""


@contextmanager
def written(bootstrap: str, topic: str) -> Iterator[None]:
    ending = threading.Event()

    def write() -> None:
        producer = Producer(
            {"bootstrap.servers": bootstrap, "linger.ms": 0, "on_delivery": delivered}
        )
        begun, number = time.monotonic(), 0
        while not ending.wait(0.01):
            while number < int((time.monotonic() - begun) * RATE):
                number += 1
                producer.produce(topic, f'{{"number": {number}}}', partition=0)
            producer.poll(0)
        assert producer.flush(WAIT_S) == 0

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield
    finally:
        ending.set()
        thread.join()


def left_out(page: Page) -> int:
    text = page.get_by_role("status").inner_text()
    found = re.search(r"… ([\d ]+) messages came too fast and are not shown", text)
    return int(found[1].replace(" ", "")) if found else 0


def end_of(broker: RunningBroker, topic: str) -> int:
    (row,) = Rest(broker.admin).get(f"/topics/{topic}")["partition_rows"]
    end: int = row["high_watermark"]
    return end


@pytest.fixture(scope="module")
def topic(broker: RunningBroker) -> str:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    for made in admin.create_topics([NewTopic("busy", 1)]).values():
        made.result(WAIT_S)
    return "busy"


def test_a_page_that_follows_500_messages_a_second_is_drawn_a_few_times_in_it(
    console: Console, broker: RunningBroker, topic: str
) -> None:
    page = console.open(f"topics/{topic}?tab=messages")
    page.get_by_role("button", name="Follow").click()
    expect(page.get_by_role("status")).to_contain_text("following new messages")
    with written(broker.bootstrap, topic):
        newest = page.locator("#messages tbody tr td:nth-child(2)").first
        newest.wait_for()
        page.evaluate(COUNTED)
        first = int(newest.inner_text().replace(" ", ""))
        page.wait_for_function(
            "(to) => Number(document.querySelector('#messages tbody td:nth-child(2)')"
            ".textContent.replaceAll(' ', '')) >= to",
            arg=first + WANTED,
        )
        drawn, seconds = page.evaluate(
            "[window.drawn.times, (performance.now() - window.drawn.begun) / 1000]"
        )
        assert 1 < drawn <= seconds * DRAWN_PER_S + 1
        assert page.locator("#messages tbody tr").count() <= ROWS_MAX
        # the page counts skipped messages, and still accepts input
        assert left_out(page) > 0
        page.get_by_role("button", name="Stop following").click()
        expect(page.get_by_role("button", name="Follow", exact=True)).to_be_visible()


def test_what_is_shown_and_what_is_left_out_is_all_there_was(
    console: Console, broker: RunningBroker, topic: str
) -> None:
    page = console.open(f"topics/{topic}?tab=messages")
    page.get_by_role("button", name="Follow").click()
    expect(page.get_by_role("status")).to_contain_text("following new messages")
    page.wait_for_timeout(500)
    before = end_of(broker, topic)
    with written(broker.bootstrap, topic):
        page.locator("#messages tbody tr").first.wait_for()
    end = end_of(broker, topic)
    rows = page.locator("#messages tbody tr")
    until(lambda: rows.count() + left_out(page) >= end - before)
    assert rows.count() + left_out(page) == end - before
    texts = page.locator("#messages tbody tr td:nth-child(2)").all_inner_texts()
    offsets = [int(re.sub(r"\D", "", each)) for each in texts]
    assert offsets == sorted(offsets, reverse=True), "the newest is on top"
