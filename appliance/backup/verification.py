"""Reads a target back: every manifest, and every object that one names, compared with its name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from appliance.backup.errors import KeyWrong, ObjectDamaged, TargetFailed
from appliance.backup.manifest import Blob, Manifest
from appliance.backup.target import Target, path_of
from appliance.errors import ApplianceError

THREADS = 4
BATCH = 1000  # objects that wait for a thread at a time

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Damaged:
    """A file of the target, and the backups that need it."""

    path: str
    what: str
    backups: tuple[str, ...]


@dataclass
class Verified:
    backups: int = 0
    objects: int = 0
    bytes: int = 0
    damaged: list[Damaged] = field(default_factory=list)  # read, and not what was written
    unreadable: list[Damaged] = field(default_factory=list)  # perhaps now only, perhaps for good


def verify(
    target: Target, backups: Sequence[str], progress: Progress = lambda done, total: None
) -> Verified:
    """`backups`: their ids."""
    found = Verified()
    users: dict[Blob, list[str]] = {}
    for each in manifests_of(target, backups, found):
        found.backups += 1
        for blob in each.blobs:
            users.setdefault(blob, []).append(each.id)
    total = sum(blob.size for blob in users)
    with ThreadPoolExecutor(THREADS, "verify") as threads:
        every = list(users)
        for at in range(0, len(every), BATCH):
            part = every[at : at + BATCH]
            looks = threads.map(lambda one: look(target, one), part)
            for blob, error in zip(part, looks, strict=True):
                found.objects += 1
                found.bytes += blob.size
                if error is not None:
                    who = tuple(dict.fromkeys(users[blob]))
                    note(found, path_of(blob.name), error, who)
                progress(found.bytes, total)
    return found


def manifests_of(target: Target, backups: Iterable[str], found: Verified) -> Iterator[Manifest]:
    for each in backups:
        try:
            yield target.manifest(each)
        except (ObjectDamaged, TargetFailed) as error:
            note(found, f"manifests/{each}.json", error, (each,))


def look(target: Target, blob: Blob) -> ApplianceError | None:
    """What is wrong with it."""
    try:
        target.get(blob)
    except (ObjectDamaged, TargetFailed, KeyWrong) as error:
        return error
    return None


def note(found: Verified, path: str, error: ApplianceError, users: tuple[str, ...]) -> None:
    """What was not read is not known to be damaged: the line, the service or the key may be it."""
    kind = found.damaged if isinstance(error, ObjectDamaged) else found.unreadable
    kind.append(Damaged(path, str(error), users))
