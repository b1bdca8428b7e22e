"""What counts of a sanitizer's reports; their runs are in `make test-long` alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import sanitizers

OURS = """==1==ERROR: AddressSanitizer: heap-use-after-free on address 0x1

    #0 0x1 in memcpy (libasan.so)
    #1 0x2 in fetch (/x/appliance/network/_fetch.cpython-311-x86_64-linux-gnu.so+0x3)

"""
FOREIGN = """==1==ERROR: AddressSanitizer: heap-use-after-free on address 0x1

    #0 0x1 in memcpy (libasan.so)

"""
NO_REPORT = "=====\nERROR: Failed to mmap\n"  # as where memory is limited


def test_only_reports_of_the_core_count_each_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sanitizers, "CACHE", tmp_path)
    sanitizer = sanitizers.SANITIZERS["address"]
    sanitizer.folder.mkdir()
    for number, text in enumerate([NO_REPORT, FOREIGN + OURS + OURS, NO_REPORT + OURS]):
        (sanitizer.folder / f"report.{number}").write_text(text)
    assert sanitizers.reports(sanitizer) == [OURS.strip()]
