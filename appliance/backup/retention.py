"""Which backups `--keep` removes.

So many that are whole stay, and what is newer. Of the older ones those stay, too, that have records
which are damaged in all that stay: the newest such one for each record. A backup takes them from
there, but not always: the file may be damaged, or the topic is compacted.

Of a manifest that is damaged nobody knows what it names: it stays, and with it all objects. So
whoever has the wrong key removes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from appliance.backup.errors import ObjectDamaged
from appliance.backup.kept_records import Key, had, key_of
from appliance.backup.manifest import Manifest
from appliance.backup.offset_ranges import Range, within, without
from appliance.backup.target import Target


@dataclass
class Pruned:
    """Ids of backups."""

    removed: list[str] = field(default_factory=list)
    held: list[str] = field(default_factory=list)  # for the sake of what newer ones lack
    unreadable: list[str] = field(default_factory=list)  # manifests, and why


def prune(target: Target, keep: int) -> Pruned:
    every = target.ids()
    whole = [name for name, each in target.manifests(every) if is_whole(each)]
    first = whole[-keep] if len(whole) >= keep else every[0] if every else ""
    found, lacks, objects = Pruned(), Lacks(), set[str]()
    for each, manifest in target.manifests(reversed(every)):
        if isinstance(manifest, ObjectDamaged):
            found.unreadable.append(str(manifest))
            continue
        if each >= first:
            lacks.add(manifest)
        elif lacks.are_had_by(manifest):
            found.held.insert(0, each)
        else:
            found.removed.insert(0, each)
            continue
        objects |= {blob.name for blob in manifest.blobs}
    target.remove_backups(found.removed)
    if not found.unreadable:
        target.sweep(objects)
    return found


def is_whole(found: Manifest | ObjectDamaged) -> bool:
    return not isinstance(found, ObjectDamaged) and found.is_whole


@dataclass
class Lacks:
    """What is damaged in each of the backups that stay, of the newest back."""

    _holes: dict[Key, list[Range]] = field(default_factory=dict)

    def add(self, manifest: Manifest) -> None:
        self.are_had_by(manifest)
        for each in manifest.partitions:
            self._holes.setdefault(key_of(each), [*each.holes])

    def are_had_by(self, manifest: Manifest) -> bool:
        """Any of it; it is lacking no more then."""
        is_had = False
        for each in manifest.partitions:
            holes = self._holes.get(key_of(each))
            if holes and within(holes, there := had(each)):
                self._holes[key_of(each)] = without(holes, there)
                is_had = True
        return is_had
