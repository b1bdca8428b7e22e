"""Takes the pictures of docs/console.md and README.md: `python -m tests.console.pictures`.

It shows a broker with a few minutes of traffic, in Chromium, in both colours. Check each picture
before you commit it. `--check DIR` takes every page and dialog instead, in both colours, at a desk
and on a telephone, only to be looked at.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from PIL import Image  # which matplotlib brings
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

from appliance.testing import RunningBroker, running_broker
from tests.console.conftest import BROWSERS, FLAGS
from tests.support.rest import Rest

IMAGES = Path(__file__).parents[2] / "docs" / "images"
WIDTH, HIGH, HEIGHT, LOW = 1400, 980, 880, 580
PHONE = 380
COLOURS = 256  # of a picture
USER, PASSWORD = "ada", "a long enough password"
SEED = 7  # of the produced records
TOPICS = {"orders": 4, "payments": 1, "clicks": 2, "shipments": 2}
MIRRORED = {"measurements": 2, "alarms": 1, "doors": 1}
READERS = {"billing": (0.55, ["orders", "payments"]), "fraud": (0.05, ["payments"]),
           "search-index": (0.05, ["orders", "shipments"])}  # the longest pause of a producer
# Pages, with the height of the picture.
PLACES = {
    "home": ("", HIGH),
    "segments": ("topics/orders?tab=segments", HEIGHT),
    "messages": ("topics/orders?tab=messages", HEIGHT),
    "consumers": ("groups", LOW),
    "group": ("groups/billing", HEIGHT),
    "exports": ("exports", LOW),
    "mirrors": ("mirrors", LOW),
}
# Every page by the way to it, and the button that opens a dialog there.
CHECKED = {
    "topics": "", "topics/orders": "", "topics/orders?tab=segments": "",
    "topics/orders?tab=messages": "", "topics/orders?tab=messages&record=0:7": "",
    "topics/orders?tab=consumers": "", "topics/orders?tab=producers": "",
    "topics/orders?tab=rates": "", "topics/orders?tab=configs": "", "topics/orders?tab=repair": "",
    "groups": "", "groups/billing": "", "groups/nightly": "Reset offsets",
    "exports/hourly": "", "history": "", "history?topic=orders": "", "clients": "", "ledger": "",
    "machine": "", "alerts": "", "settings": "", "records": "", "records?tab=audit": "",
    "": "", "topics?": "New topic", "exports": "", "exports?": "New export", "mirrors": "",
    "mirrors?": "New mirror", "rules": "", "rules?": "New rule", "quotas": "",
    "quotas?": "New quota", "access": "", "access?": "New user", "access?tokens": "New token",
    "topics/orders?tab=messages&": "Export", "topics/clicks?tab=messages": "Replay",
    "topics/clicks?tab=messages&": "Produce", "topics/payments?tab=messages": "Schemas",
}  # fmt: skip


def write(bootstrap: str, until: threading.Event) -> None:
    made = random.Random(SEED)
    producer = Producer({"bootstrap.servers": bootstrap, "client.id": "shop"})
    number, begin_s = 0, time.monotonic()
    while not until.wait(0.05):
        wave = 1.5 + math.sin((time.monotonic() - begin_s) / 9)
        for _ in range(round(8 * wave * made.uniform(0.7, 1.3))):
            number += 1
            order = {"id": number, "customer": f"c-{made.randrange(400)}",
                     "total": made.randrange(500, 90_000) / 100, "currency": "EUR",
                     "lines": [{"sku": f"A{made.randrange(9000)}", "count": made.randrange(1, 5)}]}
            producer.produce("orders", json.dumps(order), order["customer"],
                             headers=[("trace", f"{made.getrandbits(48):012x}".encode())])
            topic = made.choice([*TOPICS])
            producer.produce(topic, json.dumps({"order": number}), order["customer"])
        producer.poll(0)
    producer.flush(10)


def read(bootstrap: str, group: str, until: threading.Event) -> None:
    pause_s, topics = READERS[group]
    made = random.Random(group)
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group,
                         "client.id": f"{group}-1", "auto.offset.reset": "earliest",
                         "auto.commit.interval.ms": 1000})
    consumer.subscribe(topics)
    while not until.wait(made.uniform(0, pause_s)):
        consumer.consume(400, 0.2)
    consumer.close()


def read_once(bootstrap: str) -> None:
    """A group without members, whose offsets can be put elsewhere."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "nightly",
                         "auto.offset.reset": "earliest", "enable.auto.commit": False})
    consumer.subscribe(["clicks"])
    assert consumer.consume(10, 60)
    consumer.commit(asynchronous=False)
    consumer.close()


def tell(rest: Rest) -> None:
    """Reports a run of the export, so that its hold has a position."""
    now_ms = round(time.time() * 1000)
    body = {"topics": ["orders", "payments"], "target": "/srv/lake",
            "schedule": {"cron": "5 * * * *"}}
    assert rest.ask("PUT", "/exports/hourly", body).status == 200
    parts = [{"topic": "orders", "partition": each, "from": 0, "to": 100, "rows": 100,
              "dead_letters": 0} for each in range(TOPICS["orders"])]
    rest.post("/exports/hourly/runs", {
        "id": "one", "state": "succeeded", "started_ms": now_ms - 900_000, "files": 8,
        "ended_ms": now_ms - 884_000, "bytes": 48_000_000, "partitions": parts})
    hold = {"topic": "orders", "offsets": {"0": 100}, "max_bytes": 1 << 30}
    assert rest.ask("PUT", "/holds/hourly", hold, prefix="/export/v1").status == 200


def make_topics(bootstrap: str, topics: dict[str, int]) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for each in admin.create_topics([NewTopic(*pair) for pair in topics.items()]).values():
        each.result(30)


def write_at_the_site(bootstrap: str, until: threading.Event) -> None:
    made = random.Random(SEED)
    producer = Producer({"bootstrap.servers": bootstrap, "client.id": "plc"})
    while not until.wait(0.1):
        for topic in made.choices([*MIRRORED], weights=[20, 1, 3], k=6):
            producer.produce(topic, json.dumps({"sensor": made.randrange(60),
                                                "value": made.randrange(5000) / 10}))
        producer.poll(0)
    producer.flush(10)


def set_up(rest: Rest, secret: str | None) -> str:
    """The first user, and a token for the mirror."""
    first = {"token": secret, "name": USER, "password": PASSWORD}
    assert rest.ask("POST", "/setup", first).status == 204
    who = rest.ask("POST", "/login", {"name": USER, "password": PASSWORD})
    inside = Rest(rest.admin, {"Cookie": who.headers["Set-Cookie"].partition(";")[0]})
    wanted = {"name": "mirror", "role": "operator", "may_read": False}
    return str(inside.ask("POST", "/tokens", wanted).body["token"])


@contextmanager
def mirror(site: RunningBroker, here: RunningBroker, token: str) -> Iterator[None]:
    line = [sys.executable, "-m", "appliance", "mirror", "--from", site.bootstrap, "--to",
            here.bootstrap, "--topics", "|".join(MIRRORED), "--name", "hamburg", "--report",
            here.admin]
    with subprocess.Popen(line, env={**os.environ, "APPLIANCE_TOKEN": token}) as process:
        try:
            yield
        finally:
            process.terminate()


def shoot(page: Page, base: str, name: str, path: Path) -> None:
    place, height = PLACES[name]
    page.set_viewport_size({"width": WIDTH, "height": height})
    page.goto("about:blank")
    page.goto(f"{base}/#/{place}")
    page.locator("h1").first.wait_for()
    page.locator("[aria-busy]").first.wait_for(state="detached")
    page.wait_for_timeout(4000)  # the live stream has started, and charts have data
    page.screenshot(path=path)
    # of a page 256 colours look the same, in 40 % of the bytes
    Image.open(path).convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE).save(path)
    print(path, flush=True)


def opened(page: Page, base: str, place: str, button: str) -> None:
    page.goto("about:blank")
    page.goto(f"{base}/#/{place}")
    page.locator("h1").first.wait_for()
    page.locator("[aria-busy]").first.wait_for(state="detached")
    page.wait_for_timeout(2500)
    if button:
        folded = page.locator(".search-form:not([data-open]) .unfold:visible")
        if folded.count():  # on a telephone
            folded.click()
        page.get_by_role("button", name=button, exact=True).first.click()
        page.get_by_role("dialog").wait_for()
        page.wait_for_timeout(500)


def check(browser: Browser, broker: RunningBroker, folder: Path) -> None:
    base = f"http://{broker.admin}"
    folder.mkdir(parents=True, exist_ok=True)
    for colours, width in itertools.product(("light", "dark"), (WIDTH, PHONE)):
        context = logged_in(browser, base, colours, width)
        page = context.new_page()
        for number, (place, button) in enumerate(CHECKED.items()):
            opened(page, base, place, button)
            name = re.sub(r"\W+", "-", f"{number:02} {place} {button}").strip("-")
            path = folder / f"{name}-{colours}-{width}.png"
            page.screenshot(path=path, full_page=width == PHONE and not button)
            print(path, flush=True)
        context.close()


def logged_in(browser: Browser, base: str, colours: Any, width: int) -> BrowserContext:
    context = browser.new_context(color_scheme=colours, viewport={"width": width, "height": HEIGHT})
    assert context.request.post(
        f"{base}/api/v1/login", data={"name": USER, "password": PASSWORD}
    ).ok
    return context


def pictures(browser: Browser, broker: RunningBroker) -> None:
    base = f"http://{broker.admin}"
    for colours in ("light", "dark"):
        context = logged_in(browser, base, colours, WIDTH)
        page = context.new_page()
        for name in PLACES:
            shoot(page, base, name, IMAGES / f"console-{name}-{colours}.png")
        context.close()


def main() -> None:
    parser = argparse.ArgumentParser(description="The pictures of the docs.")
    parser.add_argument("--minutes", type=float, default=4, help="of traffic before the first")
    parser.add_argument("--check", type=Path, metavar="DIR", help="every page, to look at")
    words = parser.parse_args()
    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    assert program, f"wanted one of {', '.join(BROWSERS)}: tests/setup.sh installs it"
    until = threading.Event()
    settings = {"log.segment.bytes": "250000", "group.lag.interval.seconds": "5",
                "storage.reserve.bytes": str(64 << 20)}
    with (
        tempfile.TemporaryDirectory(prefix="pictures-") as folder,
        running_broker(Path(folder) / "data", settings) as broker,
        running_broker(Path(folder) / "site") as site,
        sync_playwright() as playwright,
    ):
        jobs = [threading.Thread(target=write, args=(broker.bootstrap, until)),
                threading.Thread(target=write_at_the_site, args=(site.bootstrap, until))]
        jobs += [threading.Thread(target=read, args=(broker.bootstrap, group, until))
                 for group in READERS]
        make_topics(broker.bootstrap, TOPICS)
        make_topics(site.bootstrap, MIRRORED)
        tell(Rest(broker.admin))
        token = set_up(Rest(broker.admin), broker.setup_secret)
        for each in jobs:
            each.start()
        try:
            with mirror(site, broker, token):
                read_once(broker.bootstrap)
                time.sleep(60 * words.minutes)  # traffic continues while the pictures are taken
                browser = playwright.chromium.launch(executable_path=program, args=FLAGS)
                if words.check:
                    check(browser, broker, words.check)
                else:
                    pictures(browser, broker)
                browser.close()
        finally:
            until.set()
            for each in jobs:
                each.join()


if __name__ == "__main__":
    main()
