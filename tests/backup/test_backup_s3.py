"""Backups in an S3-compatible store: two servers over HTTP, asked by their usual client."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from appliance.testing import RunningBroker
from tests.support.backup_rounds import Round, Rounds, line, told
from tests.support.backups import Backups, make_topic, produce, values
from tests.support.s3_server import moto, s3_service, versity
from tests.support.shell import Shell

pytestmark = pytest.mark.release("tests/backup/test_backup.py has all of it but the store")

BUCKET = "backups"
ROUNDS = int(os.environ.get("BACKUP_ROUNDS", "5"))
SEED = int(os.environ.get("BACKUP_SEED", "1"))
BULK_BYTES = int(os.environ.get("BACKUP_BYTES", "20000000"))


@pytest.fixture(scope="module", params=[moto, versity], ids=["moto", "versity"])
def service(request: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """As its usual client sees it."""
    with s3_service(request.param, tmp_path_factory.mktemp("s3"), BUCKET) as client:
        yield client


def test_a_store_has_what_a_directory_would(
    appliance_broker: RunningBroker, service: Any, tmp_path: Path
) -> None:
    folder = f"{BUCKET}/{tmp_path.name}"
    backups = Backups(tmp_path, f"s3://{folder}")
    make_topic(appliance_broker, "clicks", 2, {"segment.bytes": "10000"})
    written = [f"{number:05d}{'.' * 100}" for number in range(300)]
    produce(appliance_broker, "clicks", written)
    backups.create(appliance_broker)
    produce(appliance_broker, "clicks", ["more"])
    assert 0 < backups.create(appliance_broker, "--keep", "1")["read_bytes"] < 10_000
    assert len(backups.list()) == 1
    assert backups.verify()[0] == 0
    with backups.restored() as broker:
        assert values(broker, "clicks") == [*written, "more"]
    victim = max(service.find(f"{folder}/objects"), key=service.size)
    service.pipe_file(victim, b"x" + service.cat_file(victim)[1:])
    code, found = backups.verify()
    assert (code, [f"{folder}/{each['path']}" for each in found["damaged"]]) == (10, [victim])


def test_a_lock_keeps_others_out_until_who_has_it_is_dead(
    appliance_broker: RunningBroker, service: Any, tmp_path: Path
) -> None:
    folder = f"{BUCKET}/{tmp_path.name}"
    backups = Backups(tmp_path, f"s3://{folder}")
    backups.create(appliance_broker)
    lock = f"{folder}/lock.json"
    assert not service.exists(lock)
    service.pipe_file(lock, b'{"who": "elsewhere:1", "until": 99999999999}')
    result = Shell(appliance_broker.admin).run("backup create", "--target", backups.target)
    assert (result.exit_code, "another backup writes to it (elsewhere:1)" in result.output) == (
        4,
        True,
    )
    service.pipe_file(lock, b'{"who": "elsewhere:1", "until": 1}')
    backups.create(appliance_broker)


def test_kills_at_random_moments_lose_nothing(
    service: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    backups = Backups(tmp_path, f"s3://{BUCKET}/{tmp_path.name}")
    rounds: list[Round] = []
    with closing(Rounds(backups, random.Random(SEED), BULK_BYTES)) as site:
        for number in range(ROUNDS):
            rounds.append(site.run(number))
            with capsys.disabled():
                print(line(rounds[-1]), flush=True)
    with capsys.disabled():
        print(told(rounds))
