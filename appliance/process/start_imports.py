"""Imports of a process that serves, without what costs time around them and is of no use."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager

AUTHORITIES = "SSL_CERT_FILE"  # what OpenSSL reads in place of the machine's


@contextmanager
def at_once() -> Iterator[None]:
    """Modules stay, and the garbage collector would look at all of them again and again.

    aiohttp reads the machine's authorities, twice, for connections that name none. All of ours
    name theirs, so that a new authority needs no new process."""
    named = os.environ.get(AUTHORITIES)
    os.environ[AUTHORITIES] = os.devnull
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
        del os.environ[AUTHORITIES]
        if named is not None:
            os.environ[AUTHORITIES] = named
