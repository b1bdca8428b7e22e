"""One of two directories of records is pulled under load: the other's partitions go on, nothing
that was acknowledged is lost, and it is back without a restart. PULLED_ROUNDS=100 does more."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from .bad_disk import MEGABYTES, bad_disk, why_not
from .loop_disk import LoopDisk
from .pulled_directory import KINDS as EVERY_KIND
from .pulled_directory import Site

ROUNDS = int(os.environ.get("PULLED_ROUNDS", "20"))
KINDS = tuple(os.environ.get("PULLED_KINDS", ",".join(EVERY_KIND)).split(","))


@pytest.mark.release("more rounds, and real disks, than tests/data_dir/test_log_dirs.py has")
@pytest.mark.skipif(bool(why_not()), reason=why_not())
def test_a_directory_is_pulled_under_load_and_comes_back(tmp_path: Path) -> None:
    with LoopDisk(tmp_path, MEGABYTES["ext4"]) as well, bad_disk(tmp_path, "ext4") as disk:
        site = Site(tmp_path, well, disk)
        try:
            for each in range(ROUNDS):
                site.round(KINDS[each % len(KINDS)], each)
            site.end()
            site.check()
        finally:
            site.end()
            code = site.stop()
        assert code == 0
