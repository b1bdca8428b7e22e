"""Writes an sdist again so that the same files make the same bytes: in order of their names, from
one moment (SOURCE_DATE_EPOCH), of nobody, with two kinds of modes."""

from __future__ import annotations

import gzip
import io
import os
import sys
import tarfile
from pathlib import Path

LEVEL = 9


def plain(info: tarfile.TarInfo, moment: int) -> tarfile.TarInfo:
    info.mtime, info.uid, info.gid, info.uname, info.gname = moment, 0, 0, "", ""
    info.mode = 0o755 if info.isdir() or info.mode & 0o100 else 0o644
    info.pax_headers = {}
    return info


def normal(path: Path, moment: int) -> bytes:
    inner = io.BytesIO()
    with tarfile.open(path) as before, tarfile.open(fileobj=inner, mode="w") as after:
        for each in sorted(before.getmembers(), key=lambda found: found.name):
            content = before.extractfile(each) if each.isreg() else None
            after.addfile(plain(each, moment), content)
    return gzip.compress(inner.getvalue(), LEVEL, mtime=moment)


def main() -> None:
    path = Path(sys.argv[1])
    path.write_bytes(normal(path, int(os.environ["SOURCE_DATE_EPOCH"])))


if __name__ == "__main__":
    main()
