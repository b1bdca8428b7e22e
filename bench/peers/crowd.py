"""Several clients at once."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence

from bench.peers.clients import check_end

PATIENCE_S = 300


def run_all(words: Sequence[str], count: int, whose: str) -> None:
    """Waits until all have ended; kills all after an error."""
    processes = [subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                  text=True) for _ in range(count)]
    try:
        outputs = [process.communicate(timeout=PATIENCE_S)[0] for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.wait()
    for process, output in zip(processes, outputs, strict=True):
        check_end(f"{whose}: {words[0]}", process.returncode, output)
