"""One load test from start to verdict.

Users count in their own process. Workers send their counts to the master every two seconds, and the
rest when their users have stopped; then the master reads the log back and checks the goals of
`--slo`. Without workers all of this is one process.
"""

from __future__ import annotations

import json
import logging
import math
import time
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import gevent
from locust.runners import STATE_INIT, STATE_MISSING, MasterRunner, WorkerRunner

from appliance.errors import ApplianceError
from loadtest import broker, options, slo, tally
from loadtest.read_back import Findings, read_back
from loadtest.reconnecting_connection import Link
from loadtest.tally import Tally
from loadtest.user import E2E_SUFFIX

log = logging.getLogger("loadtest")

MESSAGE = "appliance-tally"
REPORT_S = 2.0
FIRST_ANSWER_S = 10.0  # of the broker: a wrong --host is said soon
LAST_REPORTS_S = 30.0  # for workers to stop their users and send the rest
QUANTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p99.9": 0.999, "max": 1.0}


class Run:
    def __init__(self, environment: Any) -> None:
        self.environment = environment
        self.tally = Tally()  # of this process, since the last report
        self.lags: dict[int, int] = {}  # by consumer of this process
        self.begin()
        runner, events = environment.runner, environment.events
        events.test_start.add_listener(self.on_start)
        events.test_stop.add_listener(self.on_stop)
        events.quitting.add_listener(self.on_quitting)
        if isinstance(runner, WorkerRunner):
            runner.greenlet.spawn(self.report_for_ever)
        elif isinstance(runner, MasterRunner):
            runner.register_message(MESSAGE, self.on_report)

    @property
    def is_worker(self) -> bool:
        return isinstance(self.environment.runner, WorkerRunner)

    def begin(self) -> None:
        self.total = Tally()  # of all processes, since the start
        self.lags_of_workers: dict[str, int] = {}
        self.finished: set[str] = set()  # workers that sent the rest
        self.findings: Findings | None = None
        self.why_not_read = ""
        self.results: list[slo.Result] = []
        self.verdict: bool | None = None
        self.begin_s, self.end_s = time.monotonic(), math.nan

    # reports of workers

    def report_for_ever(self) -> None:
        while True:
            gevent.sleep(REPORT_S)
            self.report(is_last=False)

    def report(self, is_last: bool) -> None:
        data = self.tally.take() | {"lag": sum(self.lags.values()), "is_last": is_last}
        self.environment.runner.send_message(MESSAGE, data)

    def on_report(self, environment: Any, msg: Any) -> None:
        self.total.add(msg.data)
        self.lags_of_workers[msg.node_id] = msg.data["lag"]
        if msg.data["is_last"]:
            self.finished.add(msg.node_id)

    def collect(self) -> Tally:
        """Everything known so far."""
        if not isinstance(self.environment.runner, MasterRunner):
            self.total.add(self.tally.take())
        return self.total

    @property
    def lag(self) -> int:
        return sum(self.lags.values()) + sum(self.lags_of_workers.values())

    # phases of a test

    def on_start(self, **_: Any) -> None:
        self.tally.take()
        self.begin()
        if not self.is_worker:
            try:
                self.make_topics()
            except ApplianceError as error:
                log.error("the test ends before it has begun: %s", error)
                gevent.spawn(self._end_early)  # locust is about to start the users

    def _end_early(self) -> None:
        runner = self.environment.runner
        if self.environment.web_ui:
            runner.stop()
        else:
            runner.quit()

    def make_topics(self) -> None:
        given = self.environment.parsed_options
        link = Link(self.connect, min(FIRST_ANSWER_S, given.give_up), Tally())
        for topic in (given.topic, given.topic + E2E_SUFFIX):
            link.ask(partial(broker.create_topic, topic=topic, partitions=given.partitions))
        link.close()

    def link(self) -> Link:
        return Link(self.connect, self.environment.parsed_options.give_up, Tally())

    @property
    def connect(self) -> broker.Connect:
        security = options.security_of(self.environment.parsed_options)
        return broker.connect_to(self.environment.host or "", security=security)

    def on_stop(self, **_: Any) -> None:
        if self.is_worker:
            self.report(is_last=True)
            return
        self.end_s = time.monotonic()
        if isinstance(self.environment.runner, MasterRunner):
            self.wait_for_workers()
        total = self.collect()
        if self.may_be_unread:
            self.why_not_read = "--no-read-back"
        else:
            self.read_back(total)
        self.judge(total)
        self.tell()

    def wait_for_workers(self) -> None:
        """Locust's master ends a test before its workers do. This stops them and waits until they
        are ready."""
        runner, deadline = self.environment.runner, time.monotonic() + LAST_REPORTS_S
        deadline += self.environment.stop_timeout or 0.0
        workers = {each.id for each in runner.clients.all if each.state != STATE_MISSING}
        for worker in workers - self.finished:
            runner.send_message("stop", client_id=worker)
        while time.monotonic() < deadline:
            is_ready = {each.id for each in runner.clients.all if each.state == STATE_INIT}
            if workers <= self.finished & is_ready:
                return
            gevent.sleep(0.1)
        for worker in sorted(workers - self.finished):
            log.error("worker %s did not report what was acknowledged last", worker)

    def read_back(self, total: Tally) -> None:
        is_wanted = total.ledger.acked or total.ledger.unknown
        link = self.link() if is_wanted else Link(self.connect, 0.0, Tally())
        try:
            link.ask(lambda to: to)  # waits for a broker that is being restarted
            link.close()
            self.findings = read_back(self.connect, total.ledger)
        except ApplianceError as error:
            self.why_not_read = str(error)
            log.error("the log could not be read back: %s", error)

    def judge(self, total: Tally) -> None:
        stats = self.environment.stats.total
        measured = slo.Measured(total.times, self.numbers(total), stats.num_requests)
        goals = slo.parse(self.environment.parsed_options.slo)
        self.results = [slo.check(goal, measured) for goal in goals]
        found = self.findings
        is_whole = not (found.lost or found.altered) if found else self.may_be_unread
        self.verdict = is_whole and all(each.is_met for each in self.results)

    @property
    def may_be_unread(self) -> bool:
        return bool(self.environment.parsed_options.no_read_back)

    def numbers(self, total: Tally) -> dict[str, float]:
        seconds = self.seconds
        numbers = {
            "errors": self.environment.stats.total.num_failures,
            "unknown": total.ledger.unknown,
            "records/s": total.ledger.acked / seconds,
            "mb/s": total.counts[f"{tally.PRODUCE} bytes"] / seconds / 1e6,
        }
        if self.findings is not None and self.findings.acked:  # otherwise there was nothing to lose
            numbers |= {
                "loss": self.findings.lost,
                "altered": self.findings.altered,
                "duplicates": self.findings.duplicated,
            }
        return numbers

    @property
    def seconds(self) -> float:
        end = time.monotonic() if math.isnan(self.end_s) else self.end_s
        return max(end - self.begin_s, 1e-9)

    # verdict

    def tell(self) -> None:
        found = self.findings
        print(f"read back: {found.text if found else 'no: ' + self.why_not_read}")
        for example in found.examples if found else ():
            print(f"  {example}")
        for result in self.results:
            print(f"slo: {result.text}")
        print(f"verdict: {'passed' if self.verdict else 'FAILED'}", flush=True)
        if self.environment.parsed_options.report:
            path = Path(self.environment.parsed_options.report)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(self.summary(), indent=2) + "\n")

    def summary(self) -> dict[str, Any]:
        total = self.collect()
        stats = self.environment.stats.total
        return {
            "seconds": round(self.seconds, 3),
            "requests": stats.num_requests,
            "failures": stats.num_failures,
            "counts": dict(sorted(total.counts.items())),
            "seconds_by_kind": {
                kind: {name: round(times.quantile(part), 6) for name, part in QUANTILES.items()}
                for kind, times in sorted(total.times.items())
            },
            "rates": {name: round(value, 3) for name, value in self.numbers(total).items()},
            "acked_batches": total.ledger.acked_batches,
            "unknown_batches": total.ledger.unknown_batches,
            "read_back": asdict(self.findings) if self.findings else None,
            "why_not_read_back": self.why_not_read,
            "slo": [asdict(each) for each in self.results],
            "passed": self.verdict,
        }

    def on_quitting(self, environment: Any, **_: Any) -> None:
        environment.runner.stop()  # after Ctrl-C nothing else stops it; it ends in `on_stop`
        if self.verdict is False:
            environment.process_exit_code = 1
        elif self.verdict and environment.parsed_options.slo:
            environment.process_exit_code = 0  # failed requests are a goal of their own: errors=
