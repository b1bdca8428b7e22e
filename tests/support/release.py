"""What only `make test-long` runs: repetitions and combinations of what the gate has one of.

Parameters of several names are tuples, as in `pytest.mark.parametrize`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def in_release(why: str, values: Iterable[Any]) -> list[Any]:
    """All of these for the releases alone."""
    each_given = (each if isinstance(each, tuple) else (each,) for each in values)
    return [pytest.param(*given, marks=pytest.mark.release(why)) for given in each_given]


def gate_has(wanted: Iterable[Any], why: str, values: Iterable[Any]) -> list[Any]:
    """All of these in their order: the gate has the wanted ones, the releases have all."""
    kept, given = list(wanted), list(values)
    assert all(each in given for each in kept), f"wanted some of {given}, got {kept}"
    return [each if each in kept else in_release(why, [each])[0] for each in given]
