"""A thousand users, and a broker restarted in the middle: checks that no acknowledged record is
lost.

    python -m loadtest.soak --users 1000 --minutes 10 --restart kill --out /somewhere

Starts its own broker, restarts it at half time (`kill` or `term`), and writes the report to
`--out`: locust's report.html, and report.json with the result of reading back, the load of the
processes, and how near locust was to its own ceiling. Exits with 1 if an acknowledged record was
lost or a goal was missed. Other options go to locust: `--rate 2 --records 100`.
"""

from __future__ import annotations

import argparse
import json
import shutil
import signal
import subprocess
import sys
import time
from contextlib import closing, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from appliance.client.errors import BrokerRefused
from loadtest import ceiling
from loadtest.__main__ import environment, locust_command
from loadtest.broker import connect_to, partitions_of
from loadtest.own_broker import OwnBroker
from loadtest.processes import Processes, children_of

RESTARTS = {"kill": signal.SIGKILL, "term": signal.SIGTERM}
SPAWN_RATE = 50  # users a second
CEILING_S = 15
TOPIC = "soak"
TOPIC_LOOK_S = 0.2
GOALS = "loss=0,altered=0,duplicates=0"


def locust_of(given: argparse.Namespace, broker: OwnBroker, options: list[str]) -> list[str]:
    out = given.out
    return locust_command(
        "--headless", "--only-summary", "--processes", "1", "--stop-timeout", "5",
        "--host", broker.host, "--admin", broker.admin,
        "-u", str(given.users), "-r", str(SPAWN_RATE), "-t", f"{round(given.minutes * 60)}s",
        "--partitions", "16", "--slo", given.slo, "--report", str(out / "locust.json"),
        "--html", str(out / "report.html"),
        "--topic", TOPIC, *options,
    )  # fmt: skip


def wait_for_topic(locust: subprocess.Popen[bytes], host: str) -> None:
    """The broker is started when the test begins."""
    connect = connect_to(host, "loadtest-soak")
    while locust.poll() is None:
        with closing(connect()) as connection, suppress(BrokerRefused):
            partitions_of(connection, TOPIC)
            return
        time.sleep(TOPIC_LOOK_S)


def watch(
    locust: subprocess.Popen[bytes], broker: OwnBroker, given: argparse.Namespace
) -> dict[str, Any]:
    """Runs until locust ends. The restart is in the middle, counted from the first user."""
    used = Processes({"master": locust.pid, "broker": broker.process.pid})
    wait_for_topic(locust, broker.host)
    restart_at = time.monotonic() + given.minutes * 30
    restarted: dict[str, Any] = {}
    while locust.poll() is None:
        used.look()
        if "worker" not in used.pids and locust.poll() is None:
            used.pids |= dict(zip(["worker"], children_of(locust.pid), strict=False))
        if given.restart != "none" and not restarted and time.monotonic() >= restart_at:
            begin = time.monotonic()
            broker.restart(RESTARTS[given.restart])
            used.pids["broker"] = broker.process.pid
            restarted = {"how": given.restart, "seconds": round(time.monotonic() - begin, 3)}
            print(f"broker restarted: {restarted}", flush=True)
    return {
        "restart": restarted or None,
        "cores_mean": {name: round(used.cores_mean(name), 3) for name in used.pids},
        "cores_most": {name: round(used.cores_most(name), 3) for name in used.pids},
        "resident_most_mb": {name: round(used.resident_most[name] / 1e6, 1) for name in used.pids},
    }


def run(given: argparse.Namespace, options: list[str]) -> dict[str, Any]:
    most = None
    if not given.no_ceiling:
        most = ceiling.measure(given.users, CEILING_S, [])
        print(most.text, flush=True)
    broker = OwnBroker(given.out / "broker")
    try:
        command = locust_of(given, broker, options)
        with subprocess.Popen(command, env=environment()) as locust:
            try:
                watched = watch(locust, broker, given)
            finally:
                locust.terminate()  # only after an interrupt; otherwise it has ended
    finally:
        broker.stop()
    found: dict[str, Any] = json.loads((given.out / "locust.json").read_text())
    events = found["requests"] / found["seconds"]
    watched |= {
        "exit_code": locust.returncode,
        "users": given.users,
        "events_per_s": round(events, 1),
        "ceiling": asdict(most) if most else None,
        "of_ceiling": round(events / most.events, 3) if most else None,
    }
    return watched | found


def text_of(report: dict[str, Any]) -> str:
    share = report["of_ceiling"]
    near = f"{share:.0%} of its ceiling" if share is not None else "ceiling not measured"
    found = report["read_back"]
    return "\n".join(
        [
            f"{report['users']} users, {report['seconds']:.0f} s, restart: {report['restart']}",
            f"locust: {report['events_per_s']} events/s, {near}; "
            f"worker {report['cores_mean'].get('worker', 0):.2f} cores on average",
            f"broker: {report['cores_mean']['broker']:.2f} cores on average, "
            f"{report['resident_most_mb']['broker']} MB at most",
            f"acked {found['acked']}, lost {found['lost']}, altered {found['altered']}, "
            f"duplicated {found['duplicated']}, unknown {found['unknown']}"
            if found
            else f"not read back: {report['why_not_read_back']}",
            f"failed requests: {report['failures']} of {report['requests']}",
        ]
    )


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--users", type=int, default=1000)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--restart", choices=["kill", "term", "none"], default="kill")
    parser.add_argument("--slo", default=GOALS)
    parser.add_argument("--out", type=Path, default=Path("soak-report"))
    parser.add_argument("--no-ceiling", action="store_true", help="do not measure locust alone")
    parser.add_argument("--keep", action="store_true", help="keep the broker's data")
    given, options = parser.parse_known_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped by SIGTERM"))
    given.out.mkdir(parents=True, exist_ok=True)
    report = run(given, options)
    (given.out / "report.json").write_text(json.dumps(report, indent=2) + "\n")
    print(text_of(report))
    print(f"report: {given.out / 'report.json'}, {given.out / 'report.html'}")
    if not given.keep:
        shutil.rmtree(given.out / "broker" / "data")
    return int(report["exit_code"] != 0)


if __name__ == "__main__":
    sys.exit(main())
