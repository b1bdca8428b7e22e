"""Full load with acks on a pipe, for the tests that kill the process or cut the power for real.

`python -m crash.load ROOT` opens the directory, prints `open SECONDS`, and appends until it is
killed. It prints a line `a PARTITION BASE LAST DIGEST` after the records are acknowledged as
durable; a reader ignores a partial line. `--verify FILE` instead reads all records and compares
them with the acks.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from appliance.config import LogConfig, StorageConfig
from appliance.data_dir.log_dir import LogDir
from appliance.errors import ApplianceError
from appliance.record import _batch, _batch_builder

from .facts import FROM_MAGIC

TOPIC = "load"
GROUP = 8  # batches appended before one wait, as by a pipelining producer
LINE = "a {partition} {base} {last} {digest}\n"


def digest_of(batch: bytes | memoryview) -> str:
    return hashlib.blake2b(batch[FROM_MAGIC:], digest_size=8).hexdigest()


def config_of(arguments: argparse.Namespace) -> LogConfig:
    return LogConfig(
        segment_bytes=arguments.segment_bytes,
        retention_bytes=arguments.retention_bytes,
        retention_ms=-1,
    )


def storage_of(arguments: argparse.Namespace) -> StorageConfig:
    return replace(
        StorageConfig(),
        reserve_bytes=arguments.reserve_bytes,
        low_water_bytes=2 * arguments.reserve_bytes,
    )


class Load:
    """Threads that append to their partitions in turn and print durable records."""

    def __init__(self, logs: Any, arguments: argparse.Namespace) -> None:
        self.logs = logs
        self.arguments = arguments
        self.life = os.urandom(6).hex()
        self.filler = os.urandom(arguments.batch_bytes).hex().encode()[: arguments.batch_bytes]

    def run(self) -> None:
        threads = [
            threading.Thread(target=self._produce, args=(n,)) for n in range(self.arguments.threads)
        ]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            time.sleep(0.2)
            if self.arguments.retention_bytes >= 0:
                self.logs.retain()

    def _produce(self, number: int) -> None:
        counter = 0
        while True:
            for partition in range(number, self.arguments.partitions, self.arguments.threads):
                log = self.logs.log(TOPIC, partition)
                acks = []
                for _ in range(GROUP):
                    counter += 1
                    value = b"%s %d %d %s" % (self.life.encode(), partition, counter, self.filler)
                    batch = _batch_builder.batch([(int(time.time() * 1000), None, value)])
                    done = log.append(batch)
                    acks.append(
                        LINE.format(
                            partition=partition,
                            base=done.base_offset,
                            last=done.last_offset,
                            digest=digest_of(batch),
                        )
                    )
                log.await_durable(done.last_offset)
                os.write(1, "".join(acks).encode())  # below PIPE_BUF, so it is written atomically


def verify(logs: Any, acks: dict[str, list[tuple[int, int, str]]]) -> list[str]:
    """Compares acknowledged records by partition with the served ones: batches in order, and each
    acknowledged one unchanged."""
    wrong = []
    for partition, acked in acks.items():
        log = logs.log(TOPIC, int(partition))
        wanted = {base: digest for base, _, digest in acked if base >= log.log_start_offset}
        if acked and log.log_end_offset <= acked[-1][1]:
            wrong.append(f"partition {partition}: ends at {log.log_end_offset}, acked {acked[-1]}")
        offset = max(log.log_start_offset, min(wanted, default=0))
        while data := log.read(offset, 4 << 20, up_to="end"):
            view = memoryview(data)
            for info in _batch.headers(data):
                if info.base_offset != offset:
                    wrong.append(
                        f"partition {partition}: offset {info.base_offset} follows {offset - 1}"
                    )
                offset = info.last_offset + 1
                digest = wanted.pop(info.base_offset, None)
                if digest and digest != digest_of(view[info.position : info.position + info.size]):
                    wrong.append(f"partition {partition}: other bytes at offset {info.base_offset}")
        wrong += [
            f"partition {partition}: offset {base} was acknowledged and is lost"
            for base in sorted(wanted)
        ]
    return wrong


def open_load(root: Path, arguments: argparse.Namespace) -> Any:
    logs = LogDir.open(
        root,
        config=storage_of(arguments),
        log_config=lambda _topic, _partition: config_of(arguments),
    )
    for partition in range(arguments.partitions):
        if (TOPIC, partition) not in logs.logs():
            logs.create(TOPIC, partition, config_of(arguments))
    return logs


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("root", type=Path)
    parser.add_argument("--partitions", type=int, default=4)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--batch-bytes", type=int, default=700)
    parser.add_argument("--segment-bytes", type=int, default=256 << 10)
    parser.add_argument("--retention-bytes", type=int, default=-1)
    parser.add_argument("--reserve-bytes", type=int, default=0)
    parser.add_argument("--verify", type=Path)
    return parser.parse_args(arguments)


def main() -> None:
    arguments = parse(sys.argv[1:])
    began = time.monotonic()
    logs = open_load(arguments.root, arguments)
    if arguments.verify:
        wrong = verify(logs, json.loads(arguments.verify.read_text()))
        logs.close()
        print(json.dumps(wrong[:10]))
        return
    os.write(1, f"open {time.monotonic() - began:.4f}\n".encode())
    try:
        Load(logs, arguments).run()
    except ApplianceError as error:
        sys.exit(f"{error!r}")


if __name__ == "__main__":
    main()
