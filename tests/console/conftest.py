"""A real browser and a real broker with data."""

from __future__ import annotations

import contextlib
import json
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from playwright.sync_api import Browser, Page, expect, sync_playwright
from playwright.sync_api import TimeoutError as Late

from appliance.testing import RunningBroker, running_broker
from tests.support.rest import Rest

WAIT_S = 30
SIZE = 1320, 900  # of the window, in pixels
expect.set_options(timeout=WAIT_S * 1000)
# The first has no window of its own: it takes half of the processor time.
BROWSERS = "chromium-headless-shell", "chromium", "chromium-browser"
# Without these a browser looks for updates, and fails on a machine without a network.
FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update",
]  # fmt: skip
# A value for every text that users can set.
MARKUP = "<img src=x onerror='window.hacked=1'><script>window.hacked=1</script>"
ORDERS = 300


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    settings = {"num.partitions": "2", "log.segment.bytes": "20000"}
    with running_broker(tmp_path_factory.mktemp("console") / "data", settings) as running:
        fill(running.bootstrap)
        define_export(Rest(running.admin))
        yield running


def fill(bootstrap: str) -> None:
    names = [NewTopic("orders", 2), NewTopic("clicks", 1), NewTopic("to-delete", 1)]
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for made in admin.create_topics(names).values():
        made.result(WAIT_S)
    # small batches, so that there are several segments
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "client.id": MARKUP,
            "batch.num.messages": 20,
            "on_delivery": delivered,
        }
    )
    for number in range(ORDERS):
        value = {"id": number, "user": {"name": "Ada"}, "note": MARKUP}
        producer.produce(
            "orders",
            json.dumps(value),
            f"order-{number}",
            0,
            headers=[("trace", str(number).encode())],
        )
    producer.produce("orders", MARKUP, MARKUP, 1, headers=[(MARKUP, MARKUP.encode())])
    producer.produce("clicks", b"\x00\xff\x01", None)
    producer.produce("to-delete", "x")
    assert producer.flush(WAIT_S) == 0
    commit(bootstrap, "billing")
    commit(bootstrap, MARKUP)


def define_export(rest: Rest) -> None:
    """An export with a failed run and a small amount of data."""
    schedule = {"cron": "5 * * * *", "timezone": "Europe/Berlin", "jitter_seconds": 5, "retries": 3}
    body = {"topics": ["orders"], "target": "/lake", "schedule": schedule,
            "options": {"hold_bytes": 1000}}
    assert rest.ask("PUT", "/exports/daily", body).status == 200
    part = {"topic": "orders", "partition": 0, "from": 0, "to": 100, "rows": 98, "dead_letters": 2}
    now_ms = int(time.time() * 1000)
    runs: list[dict[str, Any]] = [
        {"id": "one", "state": "succeeded", "started_ms": now_ms - 7_200_000, "files": 3,
         "ended_ms": now_ms - 7_190_000, "bytes": 50_000_000, "partitions": [part],
         "plan": {"due_ms": now_ms - 18_000_000, "missed": 3},
         "letters": [{"topic": "orders", "partition": 0, "offset": 3, "why": MARKUP},
                     {"topic": "orders", "partition": 0, "offset": 5, "why": "not JSON"}]},
        {"id": "two", "state": "failed", "started_ms": now_ms - 3_600_000, "error": MARKUP},
    ]  # fmt: skip
    for run in runs:
        rest.post("/exports/daily/runs", run)
    hold = {"topic": "orders", "offsets": {"0": 100}, "max_bytes": 1 << 20}
    assert rest.ask("PUT", "/holds/daily", hold, prefix="/export/v1").status == 200


def delivered(error: Any, _: Any) -> None:
    assert error is None, error


def commit(bootstrap: str, group: str) -> None:
    """Commits offsets of a group that has read some records and left."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe(["orders"])
    assert consumer.consume(100, WAIT_S)
    consumer.commit(asynchronous=False)
    consumer.close()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    found = [each for each in map(shutil.which, BROWSERS) if each]
    assert found, f"wanted one of {', '.join(BROWSERS)}: tests/setup.sh installs it"
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=found[0], args=FLAGS)
        yield running
        running.close()


class Console:
    """A page, and the errors that must not occur on it."""

    def __init__(self, page: Page, base: str) -> None:
        self.page, self.base = page, base
        self.wrong: list[str] = []
        # why a page stays blank: what was asked and not answered yet, and what broke off
        self.asked: set[str] = set()
        self.failed: list[str] = []
        page.on("pageerror", lambda error: self.wrong.append(f"error: {error}"))
        page.on("request", self._asked)
        page.on("requestfailed", lambda it: self.failed.append(f"{it.failure}: {it.url}"))
        page.on("response", self._answered)

    def _asked(self, request: Any) -> None:
        self.asked.add(request.url)
        if not request.url.startswith((self.base, "data:", "blob:")):
            self.wrong.append(f"left the host: {request.url}")

    def _answered(self, response: Any) -> None:
        self.asked.discard(response.url)
        if response.status >= 400:
            self.wrong.append(f"{response.status}: {response.url}")

    def gone(self, path: str) -> None:
        """It was deleted. A page asks for what it shows again and again, and may have done so once
        more before it heard of that."""
        late = f"404: {self.base}/api/v1/{path}"
        self.wrong[:] = [each for each in self.wrong if not each.startswith(late)]

    def session_ended(self) -> None:
        """The same of a session that was ended."""
        self.wrong[:] = [each for each in self.wrong if not each.startswith("401:")]

    def leave(self) -> None:
        """Before what the page shows is deleted behind its back: it would ask for it again."""
        self.page.goto("about:blank")

    def open(self, place: str = "") -> Page:
        self.page.goto(f"{self.base}/#/{place}")
        try:
            self.page.locator("h1").first.wait_for()
            expect(self.page.locator("[aria-busy]")).to_have_count(0)
        except (Late, AssertionError) as error:
            told = f"{self.wrong}, broken off {self.failed}, not answered {sorted(self.asked)}"
            raise AssertionError(f"{place}: {told}") from error
        return self.page


@pytest.fixture
def colours() -> str:
    return "light"


@pytest.fixture
def size() -> tuple[int, int]:
    return SIZE


@contextlib.contextmanager
def opened(
    browser: Browser, broker: RunningBroker, size: tuple[int, int] = SIZE, colours: Any = "light"
) -> Iterator[Console]:
    width, height = size
    context = browser.new_context(color_scheme=colours, viewport={"width": width, "height": height})
    context.set_default_timeout(WAIT_S * 1000)
    made = Console(context.new_page(), f"http://{broker.admin}")
    yield made
    context.close()
    assert made.wrong == []


@pytest.fixture
def console(
    browser: Browser, broker: RunningBroker, colours: Any, size: tuple[int, int]
) -> Iterator[Console]:
    with opened(browser, broker, size, colours) as made:
        yield made


SERIOUS = {"serious", "critical"}
Faults = Callable[[Page], list[str]]
# Of what it finds, and nothing of what is well: that takes longer than to look
RUN = "axe.run(document, {resultTypes: ['violations']}).then(found => found.violations)"


@pytest.fixture(scope="session")
def axe() -> Faults:
    """What axe-core finds on a page that keeps somebody from using it."""
    import axe_playwright_python

    found: Path = next(Path(axe_playwright_python.__file__).parent.rglob("axe.min.js"))
    script = found.read_text()

    def faults(page: Page) -> list[str]:
        page.evaluate(script)
        return [
            f"{each['id']}: {each['help']}: {[node['html'][:120] for node in each['nodes'][:3]]}"
            for each in page.evaluate(RUN)
            if each["impact"] in SERIOUS
        ]

    return faults
