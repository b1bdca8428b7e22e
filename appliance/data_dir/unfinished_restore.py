"""The mark of a restore that has not ended: what is in the directory is not all, and must not be
served."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from appliance.errors import ApplianceError
from appliance.process import owner_only

NAME = "restoring"


class RestoreUnfinished(ApplianceError):
    """The start cannot go on; the text says what to do."""

    kafka_code = 56


def begin(data_dir: Path, facts: dict[str, Any]) -> None:
    """Not synced."""
    owner_only.write(data_dir / NAME, json.dumps(facts).encode())


def begun(data_dir: Path) -> dict[str, Any] | None:
    """What the mark says; None: there is none."""
    try:
        text = (data_dir / NAME).read_text()
    except FileNotFoundError:
        return None
    try:
        found: dict[str, Any] = json.loads(text)
    except ValueError:
        return {}
    return found


def check(data_dir: Path) -> None:
    if (data_dir / NAME).exists():
        raise RestoreUnfinished(
            f"{data_dir}: a restore into it has not ended: run the same `appliance backup restore` "
            "again, which goes on, or empty the directory"
        )
