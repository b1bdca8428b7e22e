"""A story that is told in one recorded process, and what was wrong with it."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from pathlib import Path

from .sweep import second_syncs
from .trace import Recorder


class Story(ABC):
    def __init__(self, root: Path) -> None:
        self.root = root
        self.recorder = Recorder()
        self.wrong: list[str] = []

    def expect(self, is_right: bool, problem: str) -> None:
        if not is_right:
            self.wrong.append(problem)

    @abstractmethod
    def run(self) -> None: ...


def tell(story: Story, trace: str) -> None:
    """Prints one JSON line with the faults. No file may be synced again after a failed sync."""
    story.run()
    print(json.dumps(story.wrong + second_syncs(Path(trace))))
