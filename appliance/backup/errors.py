"""What ends a backup, a check or a restore, and what is tried again."""

from __future__ import annotations

from appliance.errors import ApplianceError


class TargetFailed(ApplianceError):
    """The target cannot be read or written."""


class TargetBusy(ApplianceError):
    """Another run writes to it."""


class KeyWrong(ApplianceError):
    """A key is missing, or is another than the target's."""


class BackupUnknown(ApplianceError):
    """There is no such backup, or none at all."""


class ObjectDamaged(ApplianceError):
    """An object or a manifest is gone, or is not what was written."""


class SourceRefused(ApplianceError):
    """The broker does not let this user do it, or will not."""


class SourceBroke(ApplianceError):
    """The broker does not answer now: it is asked again."""


class PointLost(ApplianceError):
    """The broker does not hold the point any more, and may compact: a new one is taken."""


class TopicGone(ApplianceError):
    """It was deleted, or made anew, since the point was taken."""


class OffsetsGone(ApplianceError):
    """They were deleted since the point was taken."""


class RestoreFailed(ApplianceError):
    """The directory cannot be used as it is; the text says why."""
