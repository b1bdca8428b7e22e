"""Several clients at once."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence

from bench.peers.clients import check_end

PATIENCE_S = 300


def run_all(words: Sequence[str], count: int, whose: str) -> None:
    """Until the last has ended; none outlives this, whatever happens."""
    each = [subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            for _ in range(count)]
    try:
        told = [one.communicate(timeout=PATIENCE_S)[0] for one in each]
    finally:
        for one in each:
            one.kill()
            one.wait()
    for one, said in zip(each, told, strict=True):
        check_end(f"{whose}: {words[0]}", one.returncode, said)
