"""A log of an hour a segment, and which of its files are there."""

from __future__ import annotations

from appliance._log import Log
from appliance.data_dir.log_dir import LogDir
from tests.support.logs import NOW, batch, log_config

HOUR_MS = 3_600_000


def fill(log_dir: LogDir, topic: str = "t") -> Log:
    log = log_dir.create(topic, 0, log_config())
    for hour in range(6):
        for i in range(2):
            log.append(batch(f"{hour}.{i}", timestamp=NOW + hour * HOUR_MS + i))
        if hour < 5:
            log.roll()
    log.flush()
    log_dir.checkpoint()
    return log


def files(log_dir: LogDir) -> list[str]:
    return sorted(path.name for path in (log_dir.path / "t-0").iterdir())


def logs_on_disk(log_dir: LogDir) -> list[int]:
    return [int(name[:20]) for name in files(log_dir) if name.endswith(".log")]
