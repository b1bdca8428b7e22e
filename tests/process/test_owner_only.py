"""Nobody but their owner may read the files of a data directory."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from appliance.process import owner_only
from appliance.testing import running_broker
from tests.support.rest import Rest
from tests.support.warm_serving import WarmServing


@pytest.fixture
def open_handed() -> Iterator[None]:
    """A process that makes its files for everybody."""
    before = os.umask(0)
    yield
    os.umask(before)


def for_others(path: Path) -> dict[str, str]:
    """What is below, itself included, that somebody else may touch."""
    modes = {each: stat.S_IMODE(each.lstat().st_mode) for each in [path, *path.rglob("*")]}
    return {str(each.relative_to(path)): f"{mode:o}" for each, mode in modes.items() if mode & 0o77}


def use(admin: str) -> None:
    """Makes files of every kind that a broker makes when it is used."""
    rest = Rest(admin)
    compacted = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0"}
    rest.post("/topics", {"name": "kept", "partitions": 2, "configs": compacted})
    rest.post("/topics", {"name": "gone"})
    record = {"key": {"text": "k"}, "value": {"text": "x" * 1000}}
    for topic in ("kept", "gone"):
        rest.post(f"/topics/{topic}/messages", {"messages": [record] * 100})
    rest.ask("PATCH", "/topics/kept", {"configs": {"retention.ms": "1000000"}})
    rest.ask("DELETE", "/topics/gone")
    rest.post("/scrub", {})


def test_each_file_is_made_for_its_owner(tmp_path: Path, open_handed: None) -> None:
    """Whatever the umask: the broker may be embedded in a process that has another."""
    data = tmp_path / "data"
    for _ in range(2):
        with running_broker(data) as broker:
            if not any(data.glob("kept-*")):
                use(broker.admin)
        assert for_others(data) == {}


def test_a_directory_that_was_open_to_others_is_not_any_more(
    tmp_path: Path, open_handed: None
) -> None:
    data = tmp_path / "data"
    data.mkdir(0o755)
    serving = WarmServing(tmp_path, data=data)
    use(serving.admin)
    told = serving.wait_for_log("others could read the messages in this directory")
    assert "was=755" in told
    assert serving.stop() == 0
    assert for_others(data) == {}
    again = WarmServing(tmp_path / "again", data=data)
    assert "others could" not in again.log
    assert again.stop() == 0


def test_what_cannot_be_closed_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    tmp_path.chmod(0o750)

    def refuse(own: Path, mode: int) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(Path, "chmod", refuse)
    owner_only.tighten(tmp_path)
    assert "others may read the messages" in caplog.text


def test_what_is_written_replaces_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "file"
    owner_only.write(path, b"a longer text")
    owner_only.write(path, json.dumps({"a": 1}).encode())
    assert json.loads(path.read_text()) == {"a": 1}
