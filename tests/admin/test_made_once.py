"""What several processes of a test run share is made by one of them, whole or not at all."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.support.made_once import made_once


def test_whoever_comes_first_makes_it_and_the_others_wait(tmp_path: Path) -> None:
    made: list[int] = []

    def make(number: int) -> str:
        with made_once(tmp_path / "wanted") as folder:
            if folder is not None:
                made.append(number)
                (folder / "text").write_text(f"by {number}")
        return (tmp_path / "wanted" / "text").read_text()

    with ThreadPoolExecutor(4) as pool:
        found = set(pool.map(make, range(8)))
    assert found == {f"by {each}" for each in made}
    assert len(made) == 1


def test_what_failed_half_way_is_made_anew(tmp_path: Path) -> None:
    def fail() -> None:
        with made_once(tmp_path / "wanted") as folder:
            assert folder is not None
            (folder / "half").touch()
            raise OSError("planted")

    with pytest.raises(OSError, match="planted"):
        fail()
    assert not (tmp_path / "wanted").exists()
    with made_once(tmp_path / "wanted") as folder:
        assert folder is not None
    assert list((tmp_path / "wanted").iterdir()) == []
