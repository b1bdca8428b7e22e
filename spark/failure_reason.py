"""Why a query failed, in one line. Spark's own error has hundreds, and the reason is seldom the
first or the last of them.

    try:
        clicks.write.parquet(folder)
    except Exception as error:
        sys.exit(appliance_spark.why(error))

Causes are looked for in the order of CAUSES, for a text may have several: of a worker that died
while another one was refused it has both.
"""

from __future__ import annotations

import re
from collections.abc import Callable

SHIPPED = ("appliance", "appliance_spark", "zstandard", "lz4", "cramjam", "snappy", "re2", "kazoo")
LIMIT = 500  # characters

Told = Callable[[re.Match[str]], str]


def _lacks(found: re.Match[str]) -> str:
    name = found[1].partition(".")[0]
    if name in SHIPPED:
        return (f"the workers' Python has no package {name}: call appliance_spark.ship(spark) "
                "before the first query, or install appliance-log[spark] there")  # fmt: skip
    return (f"a Python of Spark has no package {name}: PYSPARK_PYTHON names the Python of the "
            "workers, PYSPARK_DRIVER_PYTHON that of the driver")  # fmt: skip


def _died(found: re.Match[str]) -> str:
    return ("a Python worker died without a word; mostly the kernel has killed it for its memory "
            "(dmesg on its machine says so): give workers more memory "
            "(spark.executor.memoryOverhead) or tasks less (splitBytes, fewer cores)")  # fmt: skip


CAUSES: tuple[tuple[re.Pattern[str], Told], ...] = (
    (re.compile(r"^[ \t]*appliance(?:_spark)?(?:\.\w+)*\.(\w+): (.+)$", re.MULTILINE),
     lambda found: f"{found[1]}: {found[2]}"),
    (re.compile(r"No module named '([\w.]+)'"), _lacks),
    (re.compile(r"PYTHON_VERSION_MISMATCH\] (.+)"),
     lambda found: f"{found[1]} Set PYSPARK_PYTHON"),
    (re.compile(r'Cannot run program "([^"]+)"'), lambda found: (
        f"there is no {found[1]} on a worker's machine: set PYSPARK_PYTHON to a Python there")),
    (re.compile(r"ExecutorLostFailure \(executor (\S+) exited[^)]*\)(?: Reason: (.+))?"),
     lambda found: f"executor {found[1]} was lost: {found[2] or 'no reason is given'}"),
    (re.compile("Python worker exited unexpectedly|Python worker failed to connect back"), _died),
    (re.compile(r"^[ \t]*(?!org\.|java|py4j\.|pyspark\.)(?:\w+\.)*(\w+Error): (.+)$", re.MULTILINE),
     lambda found: f"{found[1]}: {found[2]}"),
)  # fmt: skip


def why(error: BaseException) -> str:
    """The reason in one line; if none is known, the first line of the error."""
    text = str(error)
    for pattern, told in CAUSES:
        if found := [*pattern.finditer(text)]:
            return _one_line(told(found[-1]))  # of Python's chained errors the last is the outer
    return _one_line(text.strip() or type(error).__name__)


def _one_line(text: str) -> str:
    line = text.partition("\n")[0].strip()
    return line if len(line) <= LIMIT else f"{line[:LIMIT]}…"
