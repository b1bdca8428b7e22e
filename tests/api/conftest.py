"""A broker without sockets, and who asks it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.control import Control
from tests.support.share_client import ShareClient


@pytest.fixture
def control(tmp_path: Path) -> Iterator[Control]:
    """Without a topic: files that want one say which."""
    made = Control(tmp_path)
    yield made
    made.close()


@pytest.fixture
def killed(tmp_path: Path, control: Control) -> Iterator[Callable[..., Control]]:
    """Kills the broker; answers the one that is started on what is left."""
    lives: list[Control] = []

    def kill(*, is_dead: bool = False) -> Control:
        if not is_dead:
            (lives[-1] if lives else control).kill()
        lives.append(Control(tmp_path))
        return lives[-1]

    yield kill
    # the first one is closed by its own fixture
    if lives:
        control.__dict__.update(lives[-1].__dict__)


@pytest.fixture
def member(control: Control) -> ShareClient:
    """Of a share group whose coordinator assigned it all of the topic "t"."""
    found = ShareClient(control)
    found.initialize(*range(len(control.broker.topics["t"].logs)))
    return found
