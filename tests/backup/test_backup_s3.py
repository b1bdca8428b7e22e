"""Backups in an S3-compatible store: a real server over HTTP, asked by its usual client."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from appliance.testing import RunningBroker
from tests.support.backups import Backups, make_topic, produce, values
from tests.support.shell import Shell

pytestmark = pytest.mark.release("tests/backup/test_backup.py has all of it but the store")

BUCKET = "backups"


@pytest.fixture(scope="module")
def service() -> Iterator[Any]:
    """As its usual client sees it."""
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    patch = pytest.MonkeyPatch()
    settings = {"AWS_ENDPOINT_URL": f"http://{host}:{port}", "AWS_ACCESS_KEY_ID": "test",
                "AWS_SECRET_ACCESS_KEY": "test", "AWS_DEFAULT_REGION": "us-east-1"}  # fmt: skip
    for name, value in settings.items():
        patch.setenv(name, value)
    import s3fs

    client = s3fs.S3FileSystem(skip_instance_cache=True, use_listings_cache=False)
    client.mkdir(BUCKET)
    yield client
    patch.undo()
    server.stop()


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
