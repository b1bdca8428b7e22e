"""One consumer of a group as a process of its own, until SIGTERM.

    python -m tests.support.group_member ZOOKEEPER GROUP NAME FOLDER

FOLDER/NAME.read gets a line `partition offset` for each message of topic t, before the next one is
asked for; FOLDER/NAME.owns a line `when claimed|let-go|lost partition` for what it owns, with the
clock that all processes of a machine share.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

from appliance.client.consumer_config import ConsumerConfig
from appliance.client.consumer_connector import ConsumerConnector
from appliance.process import event_log

SESSION_MS = 4000
WORDS = {"claimed": "claimed", "let go": "let-go", "lost with its session": "lost"}


class Owned(logging.Handler):
    def __init__(self, file: Path) -> None:
        super().__init__()
        self.file = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def emit(self, record: logging.LogRecord) -> None:
        what = WORDS.get(record.getMessage())
        if what:
            facts: dict[str, Any] = record.__dict__["facts"]
            text = f"{time.monotonic():.6f} {what} {facts['partition'].partition}\n"
            os.write(self.file, text.encode())


def consume(zookeeper: str, group: str, name: str, folder: Path) -> None:
    event_log.to_stderr()
    logging.getLogger("kazoo").setLevel(logging.ERROR)
    consumer = logging.getLogger("appliance.consumer")
    consumer.removeFilter(event_log.repeats)  # who claims a partition twice a minute is told twice
    consumer.addHandler(Owned(folder / f"{name}.owns"))
    read = os.open(folder / f"{name}.read", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    config = ConsumerConfig(
        zk_connect=zookeeper,
        group_id=group,
        consumer_id=name,
        zk_session_timeout_ms=SESSION_MS,
        autocommit_interval_ms=200,
    )
    connector = ConsumerConnector(config)
    # not in the handler itself: it may have interrupted the stream while that holds its lock
    stop = threading.Thread(target=connector.shutdown)
    signal.signal(signal.SIGTERM, lambda *_: stop.start())
    (stream,) = connector.create_message_streams({"t": 1})["t"]
    for message in stream:
        os.write(read, f"{message.partition} {message.offset}\n".encode())
    stop.join()


if __name__ == "__main__":
    zookeeper, group, name, folder = sys.argv[1:]
    consume(zookeeper, group, name, Path(folder))
