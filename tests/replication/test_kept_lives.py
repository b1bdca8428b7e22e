"""Directories that were put back from an older copy are taken for lost."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from appliance.broker.kept_lives import NAME, KeptLives
from appliance.data_dir.record_dir import RecordDir
from appliance.errors import ApplianceError
from tests.support.logs import log_config, opened


@dataclass
class Directories:
    directories: list[RecordDir]


Lives = Callable[..., list[tuple[str, int]]]


@pytest.fixture
def found(tmp_path: Path) -> Iterator[Directories]:
    """A partition in each of two directories."""
    with ExitStack() as stack:
        made = [RecordDir(tmp_path / each) for each in ("0", "1")]
        for number, each in enumerate(made):
            each.path.mkdir()
            each.logs = stack.enter_context(opened(each.path))
            each.logs.create("t", number, log_config())
        yield Directories(made)


@pytest.fixture
def lives(found: Directories) -> Lives:
    """What is lost when a life begins."""

    def begin(
        former: int, life: int, registers: bool = True,
        meanwhile: Callable[[], None] = lambda: None,
    ) -> list[tuple[str, int]]:  # fmt: skip
        kept = KeptLives(found)  # type: ignore[arg-type]
        asyncio.run(kept.keep(former, life))
        lost = sorted(kept.lost())
        if registers:
            kept.begun(life)
            meanwhile()
            asyncio.run(kept.keep_late())
        return lost

    return begin


def test_a_directory_that_was_closed_when_a_life_began_is_behind(
    found: Directories, lives: Lives
) -> None:
    """It gets another life than that: at the next start it would be an older copy."""
    lives(0, 1)
    closed, found.directories[0].logs = found.directories[0].logs, None
    kept = KeptLives(found)  # type: ignore[arg-type]
    asyncio.run(kept.keep(1, 2))
    kept.begun(2)
    assert not kept.is_behind(2)
    found.directories[0].logs = closed
    assert kept.is_behind(2)
    asyncio.run(kept.keep(2, 3))
    assert kept.lost() == [("t", 0)]
    kept.begun(3)
    assert not kept.is_behind(3)
    found.directories[0].logs = None
    asyncio.run(kept.keep_late())
    found.directories[0].logs = closed
    assert lives(3, 4) == [("t", 0)], "what was closed may have been another one"
    assert lives(4, 5) == []


def test_a_directory_that_was_there_is_not_lost(lives: Lives) -> None:
    assert lives(0, 1) == []
    assert lives(1, 2) == []
    assert lives(2, 3) == []
    assert lives(2, 3) == [], "whether ZooKeeper had taken it was not known"


def test_an_older_copy_is_lost_with_all_that_it_has(lives: Lives, tmp_path: Path) -> None:
    lives(0, 1)
    shutil.copy(tmp_path / "1" / NAME, tmp_path / "copy")
    assert lives(1, 2) == []
    shutil.copy(tmp_path / "copy", tmp_path / "1" / NAME)
    assert lives(2, 3, registers=False) == [("t", 1)]
    assert lives(2, 3, registers=False) == [("t", 1)], "it has not resigned yet"
    assert lives(3, 4) == [("t", 1)]
    assert lives(4, 5) == [], "its leaders have told it the rest, or it is in no ISR"


@pytest.mark.parametrize("damage", [Path.unlink, lambda file: file.write_bytes(b"0000x\0")])
def test_without_a_readable_life_a_directory_is_lost(
    damage: Callable[[Path], object], lives: Lives, tmp_path: Path
) -> None:
    lives(0, 1)
    damage(tmp_path / "0" / NAME)
    assert lives(1, 2) == [("t", 0)]


def test_where_it_cannot_be_written_it_is_written_later(lives: Lives, tmp_path: Path) -> None:
    """The others do not wait for it; where none of them can be written no life begins."""
    in_the_way = tmp_path / "0" / NAME
    in_the_way.mkdir()
    assert lives(0, 1, meanwhile=in_the_way.rmdir) == []
    assert lives(1, 2) == []
    in_the_way.unlink()
    in_the_way.mkdir()
    assert lives(2, 3) == [("t", 0)], "what it has may be older than what was promised"
    in_the_way.rmdir()
    assert lives(3, 4) == [("t", 0)]
    assert lives(4, 5) == []
    for each in ("0", "1"):
        (tmp_path / each / NAME).unlink()
        (tmp_path / each / NAME).mkdir()
    with pytest.raises(ApplianceError, match="life cannot be kept"):
        lives(0, 1)
