"""Producers that each wait for their record, with slow syncs; in one recorded process.

Prints how many commits there were."""

from __future__ import annotations

import sys
from pathlib import Path
from threading import Thread

from appliance._log import Log
from appliance.config import LogConfig
from appliance.data_dir.log_dir import LogDir
from appliance.record import _batch_builder

from .stop import QUIET


def main(root: str, producers: str, records: str) -> None:
    batch = _batch_builder.batch([(1_700_000_000_000, b"k", b"v")])
    log_dir = LogDir.open(Path(root), QUIET)
    logs = log_dir.create_all("t", range(int(producers)), LogConfig())

    def produce(log: Log) -> None:
        for _ in range(int(records)):
            log.append_durable(batch)

    before = log_dir.counters()["commits"]
    threads = [Thread(target=produce, args=(log,)) for log in logs]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    print(log_dir.counters()["commits"] - before)
    log_dir.abandon()


if __name__ == "__main__":
    main(*sys.argv[1:])
