"""The logs of all partitions, in the directories of `log.dirs`: one `LogDir` with an engine of its
own for each, so that a disk that fails, hangs or is full takes its own partitions alone.

With `data.dir` alone there is one, without an id, and the catalog says nothing of places. Otherwise
the catalog says where each partition is (docs/decisions/log-dirs.md). A partition whose directory
is not open is `away`: nobody makes it anew.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path

from appliance._log import Log
from appliance.catalog.loss_ledger import Damage
from appliance.config import LogConfig
from appliance.data_dir import unfinished_moves
from appliance.data_dir.log_dir import Failures, LogDir, LogUnknown
from appliance.data_dir.partition_creation import NewPartitions
from appliance.data_dir.partition_names import Key, directory_name
from appliance.data_dir.record_dir import DirectoryBusy, DirectoryOffline, RecordDir
from appliance.data_dir.record_dirs import RecordDirs
from appliance.errors import ApplianceError, StorageFull, StorageIoFailed
from appliance.process import event_log
from appliance.process.spoken import size

events = event_log.named("log_dirs")


class LogDirs(RecordDirs):
    """As `LogDir`, of all directories; and which of them each partition is in."""

    # Where a partition is

    def place_of(self, topic: str, partition: int) -> RecordDir | None:
        """None: no open directory has it, or is to have it."""
        key = (topic, partition)
        place = self._places.get(key)
        for each in self.directories:
            if place is not None and each.id == place:
                return each
            if place is None and each.logs is not None and each.logs.holds(*key):
                return each
        return None

    def away(self, topic: str, partition: int) -> str:
        """Why nobody can tell what is in it: its directory is not open. "": it is not away."""
        place = self._places.get((topic, partition))
        if place is None:
            # One that is new to us cannot have it.
            unseen = [each for each in self.offline() if each.id or self._may_hold_records]
            if self.has_ids and unseen and not self.holds(topic, partition):
                return f"where it is is not known while {unseen[0].path} is not open"
            return ""
        for each in self.directories:
            if each.id == place:
                return "" if each.is_open else f"its directory {each.path} is offline: {each.why}"
        path_before = self._known.get(place, "of which nothing is known")
        return f"its directory, {path_before} ({place}), is not in log.dirs"

    def place(
        self,
        topic: str,
        partitions: Iterable[int],
        *,
        must: bool = False,
        together: bool = False,
    ) -> dict[Key, str]:
        """Decides where new partitions go: to be stored with their topic. With one directory there
        is nothing to decide. `must`: rather on a full disk than nowhere."""
        if not self.has_ids:
            return {}
        found: dict[Key, str] = {}
        counts = Counter(self._places.values())
        directory = None
        for number in partitions:
            if directory is None or not together:
                directory = self._roomiest(counts, topic, must)
            counts[directory.id] += 1
            found[topic, number] = directory.id
        self._places.update(found)
        return found

    def _roomiest(self, counts: Mapping[str, int], topic: str, must: bool) -> RecordDir:
        able = [each for each in self.directories if each.takes_partitions]
        if not able and must:
            able = [each for each in self.directories if each.is_open and not each.fault]
        if not able:
            told = "; ".join(f"{each.path}: {self._why_not(each)}" for each in self.directories)
            raise StorageFull(f"{topic}: no directory of log.dirs takes a new partition: {told}")
        return min(
            able, key=lambda each: (counts[each.id] + 1) / max(1, each.opened().free_bytes)
        )

    def _why_not(self, directory: RecordDir) -> str:
        if directory.fault:
            return directory.fault
        low = self.config.low_water_bytes
        return f"{size(directory.opened().free_bytes)} free, wanted more than {size(low)}"

    def unplace(self, topic: str, partitions: Collection[int]) -> None:
        """They are no more."""
        self.made.forget(topic, partitions)
        for each in partitions:
            self._places.pop((topic, each), None)

    def unplace_topics(self, topics: Collection[str]) -> None:
        """They are no more, wherever their partitions are."""
        self.made.forget_topics(topics)
        for key in [each for each in self._places if each[0] in topics]:
            del self._places[key]

    def give_up(self, directory: RecordDir) -> list[Key]:
        """By a person's word: what was in it is lost, and is begun anew elsewhere, or there once an
        empty directory is in its place."""
        if directory.is_open:
            raise DirectoryBusy(f"{directory.path} is open: what is in it can be moved")
        keys = sorted(key for key, place in self._places.items() if place == directory.id)
        cause = f"its directory {directory.path} was given up"
        self.ledger.note([Damage(*key, 0, None, cause) for key in keys])
        self.rows.forget(directory.id)
        self._known = self.rows.directories()
        for key in keys:
            self._places.pop(key, None)
        events.warning("a directory was given up", path=directory.path, id=directory.id,
                       partitions=len(keys))  # fmt: skip
        directory.id = ""
        return keys

    def adopt(self, keys: Iterable[Key]) -> None:
        """Partitions of topics of which the catalog does not say where they are: where they are."""
        if not self.has_ids:
            return
        found = {}
        for key in keys:
            if key not in self._places and (holder := self.place_of(*key)) is not None:
                found[key] = holder.id
        self.rows.place(found)
        self._places.update(found)

    def settle_moves(self) -> None:
        """What was interrupted of moves between open directories."""
        if not self.has_ids:
            return
        opened = {each.id: each for each in self.directories if each.is_open}
        moves = self.rows.moves()
        for key, target in unfinished_moves.found_moved(moves, self._places, opened).items():
            self.moved(key, target)
        unfinished_moves.settle(self.rows, moves, self._places, opened)

    def moved(self, key: Key, target: RecordDir) -> None:
        """The row that decides: from now on it is there."""
        self.rows.place({key: target.id})
        self._places[key] = target.id

    def strays(self) -> list[tuple[RecordDir, Key]]:
        """What is in a directory and has its place in another one, but for what a move left."""
        moves = self.rows.moves() if self.has_ids else {}
        return [
            (each, key)
            for each in self.directories
            if each.logs is not None
            for key in each.logs.held()
            if self.place_of(*key) is not each and each.id not in moves.get(key, ())
        ]

    def _holder(self, topic: str, partition: int) -> LogDir | None:
        directory = self.place_of(topic, partition)
        logs = None if directory is None else directory.logs
        return logs if logs is not None and logs.holds(topic, partition) else None

    def _for_new(self, topic: str, partition: int) -> RecordDir:
        """Where one that has no log is to be made: where it is placed, or was."""
        key = (topic, partition)
        if (directory := self.place_of(*key)) is not None:
            return directory
        if why := self.away(*key):
            raise DirectoryOffline(f"{topic}-{partition}: {why}")
        for each in self.directories:
            if each.logs is not None and (not self.has_ids or key in each.logs.missing):
                return each
        self.rows.place(self.place(topic, [partition]))
        return self._for_new(topic, partition)

    # Logs: as of `LogDir`

    def is_full_for(self, keys: Iterable[Key]) -> bool:
        """Whether writes to one of them are refused for want of space."""
        return any(
            logs.is_full for key in keys if (logs := self._holder(*key)) is not None
        )

    def is_failing(self, topic: str, partition: int) -> bool:
        holder = self._holder(topic, partition)
        return holder is not None and holder.is_failing(topic, partition)

    def path_of(self, topic: str, partition: int) -> Path:
        """The directory of one that is held."""
        holder = self._holder(topic, partition)
        if holder is None:
            raise LogUnknown(f"there is no log {topic}-{partition} in {self._paths()}")
        return holder.path / directory_name(topic, partition)

    def logs(self) -> dict[Key, Log]:
        found: dict[Key, Log] = {}
        for directory, logs in self._opened():
            for key, log in logs.logs().items():
                if self._places.get(key, directory.id) == directory.id:
                    found.setdefault(key, log)
        return found

    def log(self, topic: str, partition: int) -> Log:
        holder = self._holder(topic, partition)
        if holder is None:
            raise LogUnknown(f"there is no log {topic}-{partition} in {self._paths()}")
        return holder.log(topic, partition)

    @property
    def unopened(self) -> dict[Key, str]:
        return self._merged(lambda logs: logs.unopened)

    @property
    def missing(self) -> dict[Key, str]:
        return self._merged(lambda logs: logs.missing)

    def _merged(self, of: Callable[[LogDir], Mapping[Key, str]]) -> dict[Key, str]:
        return {
            key: text
            for directory, logs in self._opened()
            for key, text in [*of(logs).items()]
            if self._places.get(key, directory.id) == directory.id
        }

    @property
    def unowned(self) -> set[Key]:
        return {key for _, logs in self._opened() for key in logs.unowned}

    def disown(self, topic: str, partition: int) -> None:
        """It is no topic's, and could not be set aside."""
        for _, logs in self._opened():
            if logs.holds(topic, partition):
                logs.unowned.add((topic, partition))

    def forget_missing(self, keys: Iterable[Key]) -> None:
        wanted = list(keys)
        for _, logs in self._opened():
            logs.forget_missing([each for each in wanted if each in logs.missing])

    def holds(self, topic: str, partition: int) -> bool:
        """Whether a directory of this name exists, open or not."""
        return self._holder(topic, partition) is not None

    def is_unwritten(self, topic: str, partition: int) -> bool:
        """It is open, and never had a record."""
        holder = self._holder(topic, partition)
        return holder is not None and holder.is_unwritten(topic, partition)

    def held(self) -> list[Key]:
        return sorted({key for _, logs in self._opened() for key in logs.held()})

    def create(self, topic: str, partition: int, config: LogConfig | None = None) -> Log:
        return self.create_all(topic, [partition], config)[0]

    def create_all(
        self, topic: str, partitions: Iterable[int], config: LogConfig | None = None
    ) -> list[Log]:
        """Creates all of them, or none."""
        new = NewPartitions(topic, list(partitions), config or LogConfig())
        self.create_new([new])
        return new.made()

    def create_new(self, batch: Sequence[NewPartitions]) -> None:
        """Of each topic all, or none and its error; each directory is asked once, for all that are
        to be in it."""
        by_directory: dict[RecordDir, list[tuple[NewPartitions, NewPartitions]]] = {}
        for new in batch:
            self.made.note(new.topic, new.numbers)
            try:
                for directory, part in self._parts(new).items():
                    by_directory.setdefault(directory, []).append((new, part))
            except ApplianceError as error:
                new.refuse(error)
        for directory, pairs in by_directory.items():
            self._create_in(directory, [each for each in pairs if each[0].error is None])
        self.take_back([new for new in batch if new.error is not None and new.logs])

    def _parts(self, new: NewPartitions) -> dict[RecordDir, NewPartitions]:
        numbers: dict[RecordDir, list[int]] = {}
        for number in new.numbers:
            numbers.setdefault(self._for_new(new.topic, number), []).append(number)
        return {
            directory: NewPartitions(new.topic, own, new.config)
            for directory, own in numbers.items()
        }

    def _create_in(
        self, directory: RecordDir, pairs: Sequence[tuple[NewPartitions, NewPartitions]]
    ) -> None:
        parts = [part for _, part in pairs]
        try:
            directory.opened().create_new(parts)
        except ApplianceError as error:
            for part in parts:
                part.refuse(error)
        for new, part in pairs:
            new.logs.update(part.logs)
            if part.error is not None:
                new.refuse(part.error)
            if isinstance(part.error, StorageIoFailed):
                # Where the disk refuses, nothing new goes from now on.
                directory.doubt = str(part.error)

    def take_back(self, batch: Iterable[NewPartitions]) -> None:
        """New partitions of which no topic was told."""
        gone = list(batch)
        for _, logs in self._opened() if gone else ():
            logs.take_back(gone)
        for new in gone:
            self.made.forget(new.topic, new.numbers)
            new.logs.clear()

    def reopen(self, topic: str, partition: int, config: LogConfig | None = None) -> Log:
        holder = self._holder(topic, partition)
        if holder is None:
            raise LogUnknown(f"there is no log {topic}-{partition} in {self._paths()}")
        return holder.reopen(topic, partition, config)

    def delete_all(self, keys: Collection[Key]) -> Failures:
        """Those that are in an open directory; why some of them stay."""
        failures: Failures = {}
        for _, logs in self._opened():
            own = [each for each in keys if logs.holds(*each)]
            if own or logs.has_unsettled:
                failures |= logs.delete_all(own)
        return failures

    def set_stray_aside(self, directory: RecordDir, key: Key) -> Path:
        return directory.opened().set_aside(*key)

    def set_aside(self, topic: str, partition: int) -> Path:
        """Takes a log out of service and keeps its files; returns their new directory."""
        for _, logs in self._opened():
            if logs.holds(topic, partition):
                return logs.set_aside(topic, partition)
        raise LogUnknown(f"there is no log {topic}-{partition} in {self._paths()}")

    # Upkeep

    def retain(self, now_ms: int | None = None) -> int:
        """Applies retention to every log; returns the number of deleted segments."""
        now = self.clock.now_ms() if now_ms is None else now_ms
        with self.keeper.judged(self.logs(), now) as keeps_from:
            return sum(self._each(lambda logs: logs.retain_by(now, keeps_from)))
