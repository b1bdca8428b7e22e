"""Recorded machines: what /sys, /proc and /etc of one say, as a small text, made into files.

    sys/block/sda            a folder; what is indented below is in it
      queue/scheduler = none [mq-deadline]     a file with that line; \\n begins another
      device -> sys/devices/x  a link to a place below the root
      ! queue                  nothing of that name, whatever was said before
    < base                   all of the text base.tree, first

`{a..f}` and `{0..5}` stand for a line for each; several in one line go on together. `@data@` is the
data directory, `@number@` the number of its device, which the kernel really gives it here.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple

from appliance.machine.kernel_files import KernelFiles

TREES = Path(__file__).parents[1] / "data" / "machines"
_RANGE = re.compile(r"\{(\w+)\.\.(\w+)\}")


class Room(NamedTuple):
    """What statvfs says."""

    f_frsize: int = 4096
    f_blocks: int = 4_882_812_500  # 20 TB
    f_bfree: int = 3_906_250_000
    f_bavail: int = 3_906_250_000


def made(root: Path, text: str) -> tuple[KernelFiles, Path]:
    """Files and the data directory of the machine that the text tells of."""
    data = root / "data"
    data.mkdir(parents=True, exist_ok=True)
    number = os.stat(data).st_dev
    known = {"@data@": str(data), "@number@": f"{os.major(number)}:{os.minor(number)}"}
    folder = ""
    for line in lines_of(text):
        for name, value in known.items():
            line = line.replace(name, value)
        is_within = line.startswith(" ")
        if not is_within:
            folder = ""
        if not is_within and not re.search(r" =( |$)| -> |^!", line):
            folder = line.strip()
            for each in expanded(folder):
                (root / each).mkdir(parents=True, exist_ok=True)
            continue
        put(root, folder, line.strip())
    return KernelFiles(root), data


def lines_of(text: str) -> Iterator[str]:
    for line in text.splitlines():
        bare = line.strip()
        if bare.startswith("< "):
            yield from lines_of((TREES / f"{bare[2:]}.tree").read_text())
        elif bare and not bare.startswith("#"):
            yield line.rstrip()


def put(root: Path, folder: str, line: str) -> None:
    begin = f"{folder}/" if folder else ""
    if line.startswith("! "):
        for each in expanded(begin + line[2:]):
            remove(root / each)
        return
    sign = " -> " if " -> " in line else " = "
    whole = begin + (line if sign in line else line.removesuffix(" =") + " = ")
    for each in expanded(whole):
        name, _, value = each.partition(sign)
        path = root / name.strip()
        path.parent.mkdir(parents=True, exist_ok=True)
        if sign == " -> ":
            path.unlink(missing_ok=True)
            path.symlink_to(root / value.strip())
        else:
            path.write_text(value.replace("\\n", "\n") + "\n")


def remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()  # that it is there was meant


def expanded(text: str) -> list[str]:
    """One text for each step of the ranges in it."""
    ranges = [steps(each[1], each[2]) for each in _RANGE.finditer(text)]
    if not ranges:
        return [text]
    pieces = re.split(r"\{\w+\.\.\w+\}", text)
    return [
        "".join(map("".join, zip_longest(pieces, row, fillvalue="")))
        for row in zip(*ranges, strict=True)
    ]


def steps(first: str, last: str) -> list[str]:
    if first.isdigit():
        return [str(each) for each in range(int(first), int(last) + 1)]
    return [chr(each) for each in range(ord(first), ord(last) + 1)]
