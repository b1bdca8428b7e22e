"""The version of an export's definition: a digest of it, so that a change says what it replaces."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from appliance.errors import ApplianceError

NEW = "new"  # in its place: there must be none


class DefinitionChanged(ApplianceError):
    """Somebody else was faster."""

    kafka_code = 92


def version_of(definition: Mapping[str, Any]) -> str:
    """The same for the same definition, also after a restart."""
    text = json.dumps(definition, sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def check(name: str, present: Mapping[str, Any] | None, version: str | None) -> None:
    """Whether what is there is what was meant. None: whatever is there."""
    found = NEW if present is None else version_of(present)
    if version == NEW and present is not None:
        raise DefinitionChanged(
            f"export {name!r}: there is one already: change it, or replace it (--replace)"
        )
    if version not in (None, found):
        there = "there is none" if present is None else f"it has version {found}"
        raise DefinitionChanged(
            f"export {name!r}: got the version {version[:40] if version else ''}, and {there}: "
            "read it again, and change that"
        )
