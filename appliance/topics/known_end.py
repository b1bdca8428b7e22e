"""Whether it is known here up to where the records of a log count.

A new leader has all that counts, and hears from its followers how much that is. Until then its
high watermark is where it was before, after a restart at the start of the log: no answer for who
asks where the log ends. Nor is it once another broker leads. Who tells an end asks here first, and
then looks at the watermark: it may get known, or somebody else's, in between.
"""

from __future__ import annotations

from appliance._log import Log
from appliance.errors import ApplianceError, NotLeader, Refused
from appliance.protocol import ErrorCode


def knows_end(log: Log) -> bool:
    """It leads, or is alone, and has heard of its followers."""
    start = log.leads_from
    return log.high_watermark >= start if start >= 0 else log.role == "alone"


def is_new_leader(log: Log) -> bool:
    """It leads, and has not heard of its followers yet."""
    return log.high_watermark < log.leads_from


def is_watermark_stale(log: Log) -> bool:
    """Its watermark is from before: it leads, and has not heard of its followers, or it was opened,
    and no leader has told it anything since. That of other followers is some milliseconds old."""
    if is_new_leader(log):
        return True
    begins_anew = log.high_watermark <= log.log_start_offset < log.log_end_offset
    return begins_anew and log.role in ("follower", "nobody")


def check_end_is_known(log: Log) -> None:
    if not knows_end(log):
        raise end_unknown(log)


def check_led(log: Log) -> None:
    """Behind what was done: what a broker did that was deposed meanwhile, its leader has not."""
    if log.leads_from < 0 and log.role != "alone":
        raise led_no_more(log)


def led_no_more(log: Log) -> NotLeader:
    return NotLeader(f"{log.name} is not led here any more; ask again")


def end_unknown(
    log: Log, code: ErrorCode = ErrorCode.OFFSET_NOT_AVAILABLE
) -> ApplianceError:
    if log.leads_from < 0:
        return led_no_more(log)
    return Refused(code, f"{log.name}: the replicas have not said yet what they have; ask again")
