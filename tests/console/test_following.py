"""Following a topic that is written faster than a page can draw."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from playwright.sync_api import Browser, Page, expect

from appliance.admin import live_messages
from appliance.testing import RunningBroker
from tests.console.conftest import WAIT_S, Console, delivered
from tests.support.logs import until
from tests.support.rest import Rest

RATE = 500  # messages a second
WANTED = 2000  # shown or skipped messages before the check: four seconds
DRAWN_PER_S = 4  # following.js draws after a pause of 250 ms
ROWS_MAX = 500
# a batch fits into a segment of the broker of these tests
SENDS = {"on_delivery": delivered, "batch.num.messages": 100}

# The number and the duration of drawings: each drawing is one call.
COUNTED = """() => {
  window.drawn = { times: 0, begun: performance.now() };
  new MutationObserver(() => { window.drawn.times++; })
    .observe(document.querySelector("#messages tbody"), { childList: true });
}"""


@contextmanager
def written(bootstrap: str, topic: str, rate: int = RATE) -> Iterator[None]:
    ending = threading.Event()

    def write() -> None:
        producer = Producer({**SENDS, "bootstrap.servers": bootstrap, "linger.ms": 0})
        begun, number = time.monotonic(), 0
        while not ending.wait(0.01):
            while number < int((time.monotonic() - begun) * rate):
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


def number_in(page: Page, pattern: str) -> int:
    """Of the status line; 0 if it does not have it."""
    found = re.search(pattern.replace("N", r"([\d ]+)"), page.get_by_role("status").inner_text())
    return int(found[1].replace(" ", "")) if found else 0


def left_out(page: Page) -> int:
    return number_in(page, "… N messages came too fast and are not shown")


def came(page: Page) -> int:
    return number_in(page, "following new messages: N")


def follow(console: Console, topic: str, query: str = "") -> Page:
    page = console.open(f"topics/{topic}?tab=messages{query}")
    with page.expect_response("**/messages/live?*"):
        page.get_by_role("button", name="Follow").click()
    expect(page.get_by_role("status")).to_contain_text("following new messages")
    return page


def write(broker: RunningBroker, topic: str, count: int) -> None:
    producer = Producer({**SENDS, "bootstrap.servers": broker.bootstrap})
    for number in range(count):
        producer.produce(topic, f'{{"number": {number}}}', partition=0)
    assert producer.flush(WAIT_S) == 0


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
    page = follow(console, topic)
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
        # the page still accepts input
        page.get_by_role("button", name="Stop following").click()
        expect(page.get_by_role("button", name="Follow", exact=True)).to_be_visible()


def test_what_is_shown_and_what_is_left_out_is_all_there_was(
    console: Console, broker: RunningBroker, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_messages, "LIVE_MESSAGES_MAX", 10)  # fewer than come
    page = follow(console, topic)
    before = end_of(broker, topic)
    write(broker, topic, 100)
    until(lambda: came(page) >= 100)
    assert end_of(broker, topic) - before == came(page) == 100
    rows = page.locator("#messages tbody tr")
    assert left_out(page) > 0
    assert rows.count() + left_out(page) == 100
    texts = page.locator("#messages tbody tr td:nth-child(2)").all_inner_texts()
    offsets = [int(re.sub(r"\D", "", each)) for each in texts]
    assert offsets == sorted(offsets, reverse=True), "the newest is on top"


def test_the_chosen_partition_is_followed(console: Console, broker: RunningBroker) -> None:
    rest = Rest(broker.admin)
    rest.post("/topics", {"name": "two", "partitions": 2})
    page = follow(console, "two", "&partition=1")
    producer = Producer({**SENDS, "bootstrap.servers": broker.bootstrap})
    for partition in (0, 1):
        producer.produce("two", f"of {partition}", partition=partition)
        assert producer.flush(WAIT_S) == 0
    expect(page.locator("#messages")).to_contain_text("of 1")
    assert came(page) == 1
    console.leave()
    rest.ask("DELETE", "/topics/two")


def test_nothing_moves_while_somebody_reads(
    console: Console, broker: RunningBroker, topic: str
) -> None:
    page = follow(console, topic)
    write(broker, topic, 80)
    until(lambda: came(page) == 80)
    newest = page.locator("#messages tbody tr td:nth-child(2)").first
    before = newest.inner_text()
    page.locator("#messages tbody tr button").first.click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("status")).to_have_text("1 of 80")
    write(broker, topic, 7)
    paused = page.locator(".followed.paused")
    expect(paused).to_contain_text("paused while you read; 7 messages came meanwhile")
    assert newest.inner_text() == before
    expect(dialog.get_by_role("status")).to_have_text("1 of 80")
    page.keyboard.press("Escape")
    until(lambda: came(page) == 87)
    assert int(newest.inner_text().replace(" ", "")) == int(before.replace(" ", "")) + 7
    page.mouse.move(600, 600)
    page.mouse.wheel(0, 400)
    write(broker, topic, 5)
    expect(paused).to_contain_text("paused while you read; 5 messages came meanwhile")
    expect(paused).to_be_in_viewport()
    page.get_by_role("button", name="Go on").click()
    until(lambda: came(page) == 92)


# Of the main thread, which draws; what is shorter than 50 ms does not count as long. On a machine
# that others use a task also waits for its turn, so this is told, and the time at work is judged.
OBSERVED = """() => {
  window.longest = 0;
  new PerformanceObserver((list) => {
    for (const each of list.getEntries()) window.longest = Math.max(window.longest, each.duration);
  }).observe({ entryTypes: ["longtask"] });
}"""
FULL_S = 5  # then the list is full
TRACES, TRACE_S = 6, 10  # a minute; one trace of it would not fit the browser's buffer
MINUTE_S = TRACES * TRACE_S
LONGEST_MS = 100
GROWN_BYTES_MAX = 4_000_000


def heap(page: Page) -> tuple[float, float]:
    """Bytes that are used, and nodes of the page: what is left after collections."""
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable")
    for _ in range(3):
        session.send("HeapProfiler.collectGarbage")
    metrics = session.send("Performance.getMetrics")["metrics"]
    session.detach()
    found = {each["name"]: each["value"] for each in metrics}
    return found["JSHeapUsedSize"], found["Nodes"]


def longest_at_work_ms(trace: bytes) -> float:
    """Of the tasks of a page: processor time."""
    events = json.loads(trace)["traceEvents"]
    drawing = {(each["pid"], each["tid"]) for each in events
               if each["name"] == "thread_name" and each["args"]["name"] == "CrRendererMain"}
    took = [each["tdur"] / 1000 for each in events if each["name"].endswith("::RunTask")
            and (each["pid"], each["tid"]) in drawing and "tdur" in each]  # fmt: skip
    assert len(took) > 100, "tasks of the page are in the trace"
    return float(max(took))


@pytest.mark.release("a minute, and its limits are of time")
def test_a_minute_of_1000_messages_a_second_stutters_nowhere(
    console: Console, browser: Browser, broker: RunningBroker, topic: str,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    page = follow(console, topic)
    before = end_of(broker, topic)
    with written(broker.bootstrap, topic, 1000):
        page.wait_for_timeout(FULL_S * 1000)
    first = heap(page)
    page.evaluate(OBSERVED)
    at_work = 0.0
    with written(broker.bootstrap, topic, 1000):
        for _ in range(TRACES):
            browser.start_tracing(page=page, categories=["toplevel"])
            page.wait_for_timeout(TRACE_S * 1000)
            at_work = max(at_work, longest_at_work_ms(browser.stop_tracing()))
    longest = page.evaluate("window.longest")
    end = end_of(broker, topic)
    until(lambda: came(page) == end - before)
    last = heap(page)
    with capsys.disabled():
        print(f"\nlongest task {at_work:.0f} ms at work, {longest:.0f} ms with waiting; "
              f"came {came(page)}, left out {left_out(page)}; "
              f"heap {first[0]:,.0f}, then {last[0]:,.0f}; nodes {first[1]:.0f}, {last[1]:.0f}")
    assert end - before > 0.9 * 1000 * MINUTE_S
    assert at_work < LONGEST_MS
    assert last[0] - first[0] < GROWN_BYTES_MAX
    assert last[1] < first[1] * 1.5
