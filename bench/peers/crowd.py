"""Several clients at once."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence

from bench.peers.clients import ClientFailed

PATIENCE_S = 300


def run_all(words: Sequence[str], count: int, whose: str) -> None:
    """Until the last has ended; none outlives this, whatever happens."""
    each = [subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
            for _ in range(count)]
    try:
        told = [one.communicate(timeout=PATIENCE_S)[1] for one in each]
    finally:
        for one in each:
            one.kill()
            one.wait()
    if any(one.returncode for one in each):
        raise ClientFailed(f"{whose}: a client failed:\n{''.join(told)}")
