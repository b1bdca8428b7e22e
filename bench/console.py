"""The cost of the console with 1,000 topics of 10 partitions and 200 groups: times of loading and
filtering in Chromium, the time of a scrape, and the effect of 20 consoles on a producer.

    python -m bench.console [SUITE ...] [--rounds 5] [--seconds 10] [--json FILE]

    pages      each page in a browser with an empty cache: first paint, all rows loaded, the longest
               task of the browser, the time from a key in the filter to the next frame
    metrics    /metrics, with every partition
    requests   the broker's processor time per response: for the first request of a list, and for
               the next ones within the same second
    consoles   20 consoles and none, A B A B: a producer's latency at 1,000 records a second. The
               suite records the requests of the pages in Chromium, and the event stream; 20 clients
               repeat them at the same times, because 20 browsers on the broker's machine would
               dominate the figures. The clients only use idle processor time

A latency counts from the time when the record was due. The figure of `consoles` is the median of
the ratios.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from playwright.sync_api import Browser, Page, sync_playwright

from appliance.admin.shared_responses import AGE_SECONDS_MAX
from appliance.protocol.messages.find_coordinator import FindCoordinatorRequest
from appliance.protocol.messages.offset_commit import OffsetCommitRequest
from bench.peers import clients, members
from tests.support.serving import Serving

TOPICS, PARTITIONS, GROUPS = 1000, 10, 200
GROUP_TOPICS = 5  # topics of a group, with all partitions
CONSOLES = 20
RATE, RECORD_BYTES = 1000, 100
RHYTHM_S = 12.0  # the requests of a page are recorded for this time
FILTER = "topic-07"
LISTED = "/topics?limit=10000", "/groups?limit=10000", "/topics/topic-0000", "/groups/group-000"
REPEATS = 10
FIND_COORDINATOR, OFFSET_COMMIT = (10, 3), (8, 7)
# The limits also count partitions of internal topics.
LIMITS = ("max.partitions.total", "metrics.partitions.max")
SETTINGS = dict.fromkeys(LIMITS, TOPICS * PARTITIONS + 1000)
# The pages with most requests; the consoles are spread over them.
PATHS = {
    "home": "",
    "topics": "topics",
    "topic": "topics/topic-0000",
    "consumers": "groups",
    "group": "groups/group-000",
}
LISTS = {"topics": FILTER, "consumers": "group-07"}
# Runs before the page's scripts: records the first paint and the longest task.
WATCH = """
window.seen = {paint: 0, longest: 0};
new PerformanceObserver((list) => {
  for (const each of list.getEntries())
    if (each.name === 'first-contentful-paint') seen.paint = each.startTime;
}).observe({type: 'paint', buffered: true});
new PerformanceObserver((list) => {
  for (const each of list.getEntries()) seen.longest = Math.max(seen.longest, each.duration);
}).observe({type: 'longtask', buffered: true});
"""
# From a key to the next drawn frame: the second frame begins when the first is drawn.
TYPE = """
async (text) => {
  const field = document.querySelector('[data-filter]'), took = [];
  const set = Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, 'value').set;
  const ends = [...text].map((_, at) => at);
  for (const end of [...ends, text.length, ...ends.reverse()]) {
    const begin = performance.now();
    set.call(field, text.slice(0, end));
    field.dispatchEvent(new Event('input', {bubbles: true}));
    await new Promise((next) => requestAnimationFrame(() => requestAnimationFrame(next)));
    took.push(performance.now() - begin);
    await new Promise((next) => setTimeout(next, 80));
  }
  return took;
}
"""
SCROLL = """
async () => {
  seen.longest = 0;
  for (let at = 0; at < document.body.scrollHeight && at < 60000; at += 900) {
    scrollTo(0, at);
    await new Promise((next) => requestAnimationFrame(next));
  }
  return seen.longest;
}
"""


class Request(NamedTuple):
    at_s: float  # since the page was opened
    path: str


# Topics and groups


def fill(serving: Serving) -> None:
    address = f"127.0.0.1:{serving.kafka[1]}"
    ready(address)
    admin = AdminClient({"bootstrap.servers": address})
    names = [f"topic-{each:04}" for each in range(TOPICS)]
    for first in range(0, TOPICS, 50):
        wanted = [NewTopic(each, PARTITIONS, 1) for each in names[first : first + 50]]
        for made in admin.create_topics(wanted, request_timeout=60).values():
            made.result(60)
    producer = Producer({"bootstrap.servers": address, "linger.ms": 50,
                         "queue.buffering.max.messages": TOPICS * PARTITIONS})
    for each in names:
        for partition in range(PARTITIONS):
            producer.produce(each, b"x" * RECORD_BYTES, partition=partition)
    assert producer.flush(120) == 0
    link = members.Link(address)
    for index in range(GROUPS):
        commit(link, f"group-{index:03}", names[index : index + GROUP_TOPICS])
    link.socket.close()


def commit(link: members.Link, group: str, topics: Sequence[str]) -> None:
    each = OffsetCommitRequest.OffsetCommitRequestPartition
    rows = [OffsetCommitRequest.OffsetCommitRequestTopic(name) for name in topics]
    for row in rows:
        row.partitions = [each(index, index % 2, -1, "") for index in range(PARTITIONS)]
    response = members.ask(link, OFFSET_COMMIT, OffsetCommitRequest(group, -1, "", topics=rows))
    codes = {one.error_code for row in response.topics for one in row.partitions}
    assert codes == {0}, f"{group}: got {codes}"


def ready(address: str) -> None:
    link = members.Link(address)
    while members.ask(link, FIND_COORDINATOR, FindCoordinatorRequest("any", 0)).error_code:
        time.sleep(0.1)
    link.socket.close()


# In a browser


@contextlib.contextmanager
def chromium() -> Iterator[Browser]:
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if program is None:
        raise SystemExit("Chromium is needed: tests/setup.sh installs it")
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(
            executable_path=program, args=["--no-sandbox", "--disable-background-networking"]
        )
        yield running
        running.close()


@contextlib.contextmanager
def opened(browser: Browser, url: str) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": 1320, "height": 900})
    page = context.new_page()
    page.add_init_script(WATCH)
    page.goto(url)
    page.locator("h1").first.wait_for()
    page.locator("[aria-busy]").first.wait_for(state="detached")
    yield page
    context.close()


def look(browser: Browser, admin: str, name: str) -> dict[str, float]:
    with opened(browser, f"http://{admin}/#/{PATHS[name]}") as page:
        full = page.evaluate("performance.now()")
        page.wait_for_timeout(300)
        seen = page.evaluate("seen")
        found = {"paint ms": seen["paint"], "full ms": full, "longest task ms": seen["longest"]}
        if name in LISTS:
            took = page.evaluate(TYPE, LISTS[name])
            found |= {"filter ms": statistics.median(took), "slowest filter ms": max(took)}
            found["longest task in scrolling ms"] = page.evaluate(SCROLL)
        return found


def rhythm(browser: Browser, admin: str, name: str) -> list[Request]:
    """The requests of an open page, with their times."""
    requests: list[Request] = []
    begin = time.monotonic()

    def note(request: Any) -> None:
        path = request.url.partition(admin)[2]
        if path.startswith("/api/"):
            requests.append(Request(time.monotonic() - begin, path))

    context = browser.new_context(viewport={"width": 1320, "height": 900})
    page = context.new_page()
    page.on("request", note)
    page.goto(f"http://{admin}/#/{PATHS[name]}")
    page.wait_for_timeout(RHYTHM_S * 1000)
    context.close()
    return requests


# Without a browser


def watch(admin: str, asked: Sequence[Request], until: threading.Event, sizes: list[int]) -> None:
    """One console: keeps event streams open, and repeats its other requests every RHYTHM_S."""
    streams = [each for each in asked if each.path.startswith("/api/v1/live")]
    for each in streams:
        threading.Thread(target=listen, args=(admin, each.path, until, sizes)).start()
    others = [each for each in asked if each not in streams]
    connection = http.client.HTTPConnection(admin, timeout=30)
    begin = time.monotonic()
    while others:
        for each in others:
            if until.wait(max(0.0, begin + each.at_s - time.monotonic())):
                return
            connection.request("GET", each.path, headers={"Accept-Encoding": "gzip"})
            answer = connection.getresponse()
            sizes.append(len(answer.read()))
            assert answer.status == 200, f"{each.path}: got {answer.status}"
        begin += RHYTHM_S


def listen(admin: str, path: str, until: threading.Event, sizes: list[int]) -> None:
    connection = http.client.HTTPConnection(admin, timeout=30)
    connection.request("GET", path)
    answer = connection.getresponse()
    while not until.is_set():
        sizes.append(len(answer.read1(1 << 16)))
    connection.close()


def watch_all(admin: str, rhythms: Sequence[Sequence[Request]], consoles: int) -> None:
    """Runs until standard input ends. This separate process only uses idle processor time, because
    consoles run on other machines."""
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    until, sizes = threading.Event(), [0]
    threads = []
    for number in range(consoles):
        own = [Request(at + RHYTHM_S * number / consoles, path)
               for at, path in rhythms[number % len(rhythms)]]
        threads.append(threading.Thread(target=watch, args=(admin, own, until, sizes)))
        threads[-1].start()
    begin = time.monotonic()
    sys.stdin.read()
    until.set()
    took = time.monotonic() - begin
    print(json.dumps({"requests/s": len(sizes) / took, "bytes/s": sum(sizes) / took}))


# Suites


def pages(serving: Serving, words: argparse.Namespace) -> dict[str, float]:
    found: dict[str, float] = {}
    with chromium() as browser:
        for name in PATHS:
            turns = [look(browser, serving.admin, name) for _ in range(words.rounds)]
            for figure in turns[0]:
                found[f"{name}: {figure}"] = statistics.median(each[figure] for each in turns)
    return found


def metrics(serving: Serving, words: argparse.Namespace) -> dict[str, float]:
    took, cpu, size = [], cpu_seconds(serving), 0
    for _ in range(words.rounds):
        begin = time.perf_counter()
        connection = http.client.HTTPConnection(serving.admin, timeout=60)
        connection.request("GET", "/metrics")
        size = len(connection.getresponse().read())
        took.append((time.perf_counter() - begin) * 1000)
        time.sleep(1.1)  # until the result of the last request has expired
    cpu = cpu_seconds(serving) - cpu
    return {"scrape ms": statistics.median(took), "scrape cpu ms": cpu / words.rounds * 1000,
            "scrape bytes": size}


def cpu_seconds(serving: Serving) -> float:
    fields = Path(f"/proc/{serving.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


def requests(serving: Serving, words: argparse.Namespace) -> dict[str, float]:
    """The kernel counts processor time, so that other load changes it little."""
    found: dict[str, float] = {}
    connection = http.client.HTTPConnection(serving.admin, timeout=60)
    for path in LISTED:
        firsts, nexts = [], []
        for _ in range(words.rounds):
            time.sleep(AGE_SECONDS_MAX)
            firsts.append(cost(serving, connection, path, 1))
            nexts.append(cost(serving, connection, path, REPEATS))
        found[f"{path}: first, cpu ms"] = statistics.median(firsts)
        found[f"{path}: next, cpu ms"] = statistics.median(nexts)
    return found


def cost(
    serving: Serving, connection: http.client.HTTPConnection, path: str, count: int
) -> float:
    before = run_ns(serving)
    for _ in range(count):
        connection.request("GET", f"/api/v1{path}", headers={"Accept-Encoding": "gzip"})
        connection.getresponse().read()
    return (run_ns(serving) - before) / count / 1e6


def run_ns(serving: Serving) -> int:
    """The processor time of all threads."""
    files = Path(f"/proc/{serving.process.pid}/task").glob("*/schedstat")
    return sum(int(file.read_text().split()[0]) for file in files)


def consoles(serving: Serving, words: argparse.Namespace) -> dict[str, float]:
    with chromium() as browser:
        rhythms = [rhythm(browser, serving.admin, name) for name in PATHS]
    alone, beside, asked, quiet, busy = [], [], [], [], []
    for turn in range(words.rounds + 1):
        first, cores = probed(serving, words, f"probe-{turn}-alone")
        with watching(serving.admin, rhythms) as figures:
            second, more_cores = probed(serving, words, f"probe-{turn}-beside")
        if turn:  # the first one warms up
            alone.append(first)
            beside.append(second)
            asked.append(figures)
            quiet.append(cores)
            busy.append(more_cores)
    ratios = [b / a for a, b in zip(alone, beside, strict=True)]
    return {
        "p99 us alone": statistics.median(alone),
        "p99 us beside": statistics.median(beside),
        "ratio": statistics.median(ratios),
        "least ratio": min(ratios),
        "largest ratio": max(ratios),
        "requests/s": statistics.median(each["requests/s"] for each in asked),
        "bytes/s": statistics.median(each["bytes/s"] for each in asked),
        "cores alone": statistics.median(quiet),
        "cores beside": statistics.median(busy),
    }


@contextlib.contextmanager
def watching(admin: str, rhythms: Sequence[Sequence[Request]]) -> Iterator[dict[str, float]]:
    """The dictionary gets its figures when the block ends."""
    figures: dict[str, float] = {}
    command = [sys.executable, "-m", "bench.console", "--watch", admin, json.dumps(rhythms)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None
    assert process.stdout is not None
    time.sleep(2)  # until all consoles have started
    yield figures
    process.stdin.close()
    figures |= json.loads(process.stdout.readline())
    process.wait(60)


def probed(serving: Serving, words: argparse.Namespace, topic: str) -> tuple[float, float]:
    """The latency, and the number of cores that the broker used meanwhile."""
    address = f"127.0.0.1:{serving.kafka[1]}"
    admin = AdminClient({"bootstrap.servers": address})
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(30)
    count = int(RATE * (words.seconds + 1))
    begin, used = time.monotonic(), cpu_seconds(serving)
    latency = clients.probe_latency(address, topic, RECORD_BYTES, 1, RATE, count)
    cores = (cpu_seconds(serving) - used) / (time.monotonic() - begin)
    admin.delete_topics([topic])[topic].result(30)
    return latency["ack_p99_us"], cores


SUITES = {"pages": pages, "metrics": metrics, "requests": requests, "consoles": consoles}


def main() -> None:
    assert __doc__ is not None
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("suites", nargs="*", metavar="SUITE", help="of " + ", ".join(SUITES))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--json", type=Path, help="file for the figures")
    parser.add_argument("--watch", nargs=2, help=argparse.SUPPRESS)
    words = parser.parse_args()
    if words.watch:
        admin, rhythms = words.watch
        watch_all(admin, [[Request(*row) for row in own] for own in json.loads(rhythms)], CONSOLES)
        return
    folder = Path(tempfile.mkdtemp(prefix="bench-console-"))
    results: dict[str, dict[str, float]] = {}
    serving = Serving(folder, **SETTINGS)
    try:
        fill(serving)
        for name in words.suites or SUITES:
            results[name] = SUITES[name](serving, words)
            for figure, value in results[name].items():
                print(f"{figure:44} {value:,.5g}", flush=True)
    finally:
        serving.stop()
        shutil.rmtree(folder)
    if words.json:
        words.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
