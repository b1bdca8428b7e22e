"""Records a small data directory as a build writes it, for tests of builds to come.

    git worktree add ../older COMMIT && cd ../older && make build
    .venv/bin/python .../tests/upgrade/record.py DIR killed|stopped

It runs in the checkout of the build that is to be recorded; `test_upgrade.py` has what must be read
back. Then: tar --sort=name -C DIR -cJf tests/upgrade/data/FORMAT-HOW.tar.xz .
"""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import confluent_kafka as ck
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

SETTINGS = {
    "export.address": "127.0.0.1:0", "storage.low.water.bytes": 0, "storage.reserve.bytes": 0,
    "offsets.topic.num.partitions": 2, "transaction.state.log.num.partitions": 2,
}  # fmt: skip


def serve(directory: str) -> tuple[subprocess.Popen[str], str]:
    command = [sys.executable, "-m", "appliance", "serve", "--data-dir", directory]
    command += ["--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"]
    for name, value in SETTINGS.items():
        command += ["--set", f"{name}={value}"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    facts = dict(word.split("=", 1) for word in process.stdout.readline().split()[1:])
    return process, facts["kafka"]


def use(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    orders = NewTopic("orders", 2, config={"retention.ms": "-1", "segment.bytes": "1048576"})
    state = NewTopic("state", 1, config={"cleanup.policy": "compact"})
    for made in admin.create_topics([orders, state]).values():
        made.result()
    rule = AclBinding(ResourceType.TOPIC, "orders", ResourcePatternType.LITERAL, "User:ann", "*",
                      AclOperation.READ, AclPermissionType.ALLOW)  # fmt: skip
    for put in admin.create_acls([rule]).values():
        put.result()
    producer = ck.Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    for number in range(20):
        producer.produce("orders", f"v{number}", f"k{number}", number % 2)
    for number in range(5):
        producer.produce("state", str(number), f"s{number % 2}")
    producer.flush()
    move(bootstrap)
    consumer = ck.Consumer({"bootstrap.servers": bootstrap, "group.id": "billing"})
    places = [ck.TopicPartition("orders", 0, 7), ck.TopicPartition("orders", 1, 4)]
    consumer.commit(offsets=places, asynchronous=False)
    consumer.close()


def move(bootstrap: str) -> None:
    mover = ck.Producer({"bootstrap.servers": bootstrap, "transactional.id": "mover"})
    mover.init_transactions()
    for value in ("committed", "aborted"):
        mover.begin_transaction()
        mover.produce("orders", value, partition=0)
        mover.flush()
        if value == "committed":
            mover.commit_transaction()
        else:
            mover.abort_transaction()


def main() -> None:
    directory, how = sys.argv[1:]
    process, bootstrap = serve(directory)
    use(bootstrap)
    time.sleep(1.5)  # checkpoints are written once a second
    process.send_signal(signal.SIGKILL if how == "killed" else signal.SIGTERM)
    process.wait()


if __name__ == "__main__":
    main()
