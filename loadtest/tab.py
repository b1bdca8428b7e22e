"""A tab of locust's web page: figures for users of a broker, and the broker's own figures.

The same rows are at /appliance/stats as JSON, and at /appliance/stats.csv.
"""

from __future__ import annotations

import csv
import http.client
import io
import json
import math
import time
from collections import deque
from typing import Any

from flask import Response, jsonify, request

from appliance.process.spoken import trend
from loadtest import broker_metrics, tally
from loadtest.broker_metrics import LAG, Page
from loadtest.histogram import Histogram
from loadtest.run import Run

KEY, TITLE = "appliance", "Appliance"
COLUMNS = [
    {"key": "name", "title": "What"},
    {"key": "now", "title": "Now"},
    {"key": "since_start", "title": "Since the start"},
    {"key": "trend", "title": "Trend"},
]
FIELDS = [column["key"] for column in COLUMNS if column["key"] != "trend"]  # of the CSV
LOOK_S = 1.0  # rows are rebuilt no more often
LOOKS = 40  # of a trend
PARTS = ((0.5, "p50"), (0.99, "p99"), (0.999, "p99.9"))

Row = dict[str, Any]


def shown(value: float) -> float | str:
    return "" if math.isnan(value) else float(f"{value:.4g}")


def row(name: str, now: float, since_start: float = math.nan) -> Row:
    return {"name": name, "now": shown(now), "since_start": shown(since_start)}


class Tab:
    def __init__(self, run: Run) -> None:
        self._run = run
        self._rows: list[Row] = []
        self._at = time.monotonic() - LOOK_S  # the first look is immediate
        self._page = self._first = Page()
        self._before: dict[str, int] = {}
        self._times_before: dict[str, Histogram] = {}
        self._past: dict[str, deque[float]] = {}  # what was `now`, by the name of its row

    def rows(self) -> list[Row]:
        seconds = time.monotonic() - self._at
        if seconds >= LOOK_S:
            self._at += seconds
            self._rows = [*self._of_users(seconds), *self._of_broker(seconds), *self._verdict()]
            for each in self._rows:
                self._add_trend(each)
        return self._rows

    def _add_trend(self, each: Row) -> None:
        """Of what has a value now: locust's page shows text in its cells, and no charts."""
        now = each["now"]
        past = self._past.setdefault(each["name"], deque(maxlen=LOOKS))
        past.append(now if isinstance(now, float) else 0.0)
        each["trend"] = trend(past, LOOKS) if any(past) else ""

    def _of_users(self, seconds: float) -> list[Row]:
        total, rows = self._run.collect(), []
        counts, ran = dict(total.counts), self._run.seconds
        for what, kind in (("produced", tally.PRODUCE), ("consumed", tally.FETCH)):
            for unit, name, scale in (("MB/s", "bytes", 1e6), ("records/s", "records", 1.0)):
                key = f"{kind} {name}"
                more = max(0, counts.get(key, 0) - self._before.get(key, 0))
                rows.append(
                    row(f"{what} {unit}", more / seconds / scale, counts.get(key, 0) / ran / scale)
                )
        self._before = counts
        for kind, times in sorted(total.times.items()):
            new = times.since(self._times_before.get(kind, Histogram()))
            self._times_before[kind] = Histogram(dict(times.counts))
            for part, name in PARTS:
                now_ms, ms = new.quantile(part) * 1000, times.quantile(part) * 1000
                rows.append(row(f"{kind} {name}, ms", now_ms, ms))
        rows.append(row("lag of consumers, records", self._run.lag))
        rows.append(row("acked records", math.nan, total.ledger.acked))
        rows.append(row("records of unknown outcome", math.nan, total.ledger.unknown))
        rows.append(row("connections made again", math.nan, counts.get("reconnects", 0)))
        return rows

    def _of_broker(self, seconds: float) -> list[Row]:
        options = self._run.environment.parsed_options
        if not options.admin:
            return []
        try:
            page = broker_metrics.read(options.admin, options.token)
        except (OSError, http.client.HTTPException) as error:
            return [{"name": "broker", "now": f"no metrics: {error}", "since_start": ""}]
        before, self._page = self._page, page
        if not self._first.numbers:
            self._first = before = page
        return [
            row("broker receives MB/s", self._rate("received", page, before, seconds)),
            row("broker sends MB/s", self._rate("sent", page, before, seconds)),
            row("broker commits/s", page.since(before, "appliance_commits_total") / seconds),
            *(
                row(
                    f"broker commit p{percent}, at most ms",
                    page.commit_quantile(before, percent / 100) * 1000,
                    page.commit_quantile(self._first, percent / 100) * 1000,
                )
                for percent in (50, 99)
            ),
            row("broker lag of groups, records", page.numbers.get(LAG, 0.0)),
            row("broker resident MB", page.numbers.get("process_resident_memory_bytes", 0) / 1e6),
        ]

    def _rate(self, way: str, page: Page, before: Page, seconds: float) -> float:
        return page.since(before, f"appliance_network_{way}_bytes_total") / seconds / 1e6

    def _verdict(self) -> list[Row]:
        run = self._run
        if run.verdict is None:
            return []
        text = run.findings.text if run.findings else f"not read back: {run.why_not_read}"
        verdict = "passed" if run.verdict else "FAILED"
        rows = [{"name": "verdict", "now": verdict, "since_start": text}]
        return rows + [{"name": "slo", "now": "", "since_start": each.text} for each in run.results]


def add_to(web_ui: Any, run: Run) -> None:
    tab = Tab(run)
    web_ui.template_args |= {
        "extended_tabs": [{"key": KEY, "title": TITLE}],
        "extended_tables": [{"key": KEY, "structure": COLUMNS}],
        "extended_csv_files": [
            {"href": "/appliance/stats.csv", "title": "Download the appliance's figures as CSV"}
        ],
    }

    @web_ui.app.after_request
    def with_rows(response: Response) -> Response:
        if request.path == "/stats/requests" and response.is_json:
            stats = [{"key": KEY, "data": tab.rows()}]
            response.set_data(json.dumps(response.get_json() | {"extended_stats": stats}))
        return response

    @web_ui.app.route("/appliance/stats")
    @web_ui.auth_required_if_enabled
    def as_json() -> Response:
        return jsonify(tab.rows())

    @web_ui.app.route("/appliance/stats.csv")
    @web_ui.auth_required_if_enabled
    def as_csv() -> Response:
        text = io.StringIO()
        writer = csv.DictWriter(text, FIELDS, extrasaction="ignore")
        writer.writeheader()
        writer.writerows(tab.rows())
        return Response(text.getvalue(), mimetype="text/csv")
