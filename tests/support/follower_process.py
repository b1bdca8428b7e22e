"""A follower of `t`-0 as a process of its own, which can be killed.

python -m tests.support.follower_process DIRECTORY LEADER_PORT LIFE
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from appliance.data_dir.log_dir import LogDir
from appliance.replication._replica_fetcher import Fetcher
from tests.support.logs import STORAGE, log_config
from tests.support.replica_site import REPLICATION
from tests.support.wire_client import TOPIC_ID

LEADER, NODE, EPOCH = 1, 2, 1


def start(path: Path, port: int, life: int) -> subprocess.Popen[str]:
    words = [sys.executable, "-m", "tests.support.follower_process"]
    words += [str(path), str(port), str(life)]
    made = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert made.stdout is not None
    assert made.stdout.readline() == "follows\n"
    return made


def kill(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.wait()
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.close()
    process.stdout.close()


def main() -> None:
    path, port, life = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    log_dir = LogDir.open(path, STORAGE, log_config=lambda topic, number: log_config())
    log = log_dir.logs().get(("t", 0)) or log_dir.create("t", 0, log_config())
    log.follow(EPOCH, LEADER)
    fetcher = Fetcher(LEADER, "127.0.0.1", port, NODE, life, REPLICATION)
    fetcher.start()
    fetcher.add(TOPIC_ID.bytes, "t", 0, log)
    print("follows", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
