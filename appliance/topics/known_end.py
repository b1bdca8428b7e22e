"""Whether it is known up to where the records of a log count.

A new leader has all that counts, and hears from its followers how much that is. Until then its
high watermark is where it was before, after a restart at the start of the log: no answer for who
asks where the log ends. Who tells that asks here first, and then looks at the watermark, which may
get known in between.
"""

from __future__ import annotations

from appliance._log import Log
from appliance.errors import Refused
from appliance.protocol import ErrorCode


def knows_end(log: Log) -> bool:
    return log.high_watermark >= log.leads_from


def check_end_is_known(log: Log) -> None:
    if not knows_end(log):
        raise end_unknown(log)


def end_unknown(log: Log, code: ErrorCode = ErrorCode.OFFSET_NOT_AVAILABLE) -> Refused:
    return Refused(code, f"{log.name}: the replicas have not said yet what they have; ask again")
