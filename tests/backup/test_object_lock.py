"""The lock of a target in an object store, which nothing but its age lets go."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import fsspec
import pytest

from appliance.backup import object_store
from appliance.backup.errors import TargetBusy
from appliance.backup.object_store import LOCK, ObjectStore
from appliance.backup.retention import prune
from appliance.backup.target import Target
from tests.support.backup_targets import backup_of, target_in
from tests.support.logs import until


@pytest.fixture
def where(tmp_path: Path) -> Iterator[str]:
    files = fsspec.filesystem("memory")
    yield f"memory://{tmp_path.name}"
    for each in files.find(f"/{tmp_path.name}"):
        files.rm_file(each)


def lock_of(where: str) -> Any:
    return json.loads(ObjectStore(where).get(LOCK))


def grow_old(where: str) -> None:
    """As while a machine is suspended."""
    ObjectStore(where).put(LOCK, json.dumps({**lock_of(where), "until": 1}).encode())


def test_the_lock_is_renewed_while_the_run_waits(
    where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(object_store, "SIGN_S", 0.01)
    with ObjectStore(where).locked():
        first = lock_of(where)
        until(lambda: lock_of(where)["until"] > first["until"])
        assert lock_of(where)["lease"] == first["lease"]
        with pytest.raises(TargetBusy, match="another backup writes to it"), \
                ObjectStore(where).locked():  # fmt: skip
            pass
    assert not ObjectStore(where).size(LOCK)


def test_a_run_whose_lock_another_has_publishes_and_removes_nothing(where: str) -> None:
    slow, other = target_in(where), target_in(where)
    with slow.locked():
        backup_of(slow, 1)
    with ExitStack() as of_slow:
        of_slow.enter_context(slow.locked())
        grow_old(where)
        with other.locked():
            lease = lock_of(where)["lease"]
            refused(slow, "begun to write to it (")
            of_slow.close()
            assert lock_of(where)["lease"] == lease, "it is not the slow one's to let go"
    with slow.locked():
        ObjectStore(where).remove(LOCK)  # as the other does when it ends
        refused(slow, "begun to write to it and has ended")
    assert len(slow.ids()) == 1


def test_who_wakes_up_does_not_renew_what_is_anothers(where: str) -> None:
    waits = iter([False, False, True])
    over: Any = SimpleNamespace(wait=lambda seconds: next(waits))
    slow = ObjectStore(where)
    with slow.locked():
        grow_old(where)
        with ObjectStore(where).locked():
            other = lock_of(where)
            slow._sign_until(over)
            assert lock_of(where) == other


def refused(target: Target, why: str) -> None:
    for each in (lambda: backup_of(target, 2), lambda: prune(target, 1)):
        with pytest.raises(TargetBusy) as error:
            each()
        assert why in str(error.value)
