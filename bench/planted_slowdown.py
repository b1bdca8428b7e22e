"""Tests that a slower append path is detected: plants extra work into a copy of the tree, so that
an append takes a fifth more instructions. `bench compare` must report the planted build, and must
accept an unchanged build of the same copy.

    python -m bench.planted_slowdown [--percent 20] [--times 5] [--dir DIR]

The work is a loop at the start of `_append` in `_append.pyx`. The environment sets its length, so
one build serves every percentage, and none.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from bench.results import Run

ROOT = Path(__file__).resolve().parent.parent
MODULE = Path("storage/_append.pyx")
LENGTH = "APPLIANCE_PLANTED"
PATH = "append"
TRIAL = 10_000  # rounds of the loop, to measure the cost of one
BEFORE = "# ---- without the GIL ----\n"
LOOP = f'''cdef extern from *:
    """
    #include <cstdlib>
    static inline void planted_work() {{
        static const char *length = std::getenv("{LENGTH}");
        static const long rounds = length ? std::atol(length) : 0;
        for (volatile long each = 0; each < rounds; each = each + 1) {{}}
    }}
    """
    void planted_work() noexcept nogil


'''
FUNCTION = """cdef int _append(PartitionLog* log, uint8_t* data, BatchHeader* header,
                 const AppendOptions* options, Appended* appended, Due* due) noexcept nogil:
"""


def planted(text: str) -> str:
    for wanted in (BEFORE, FUNCTION):
        if text.count(wanted) != 1:
            raise ValueError(f"{MODULE} has {wanted!r} {text.count(wanted)} times, not once")
    head, body = text.split(FUNCTION)
    lines = body.splitlines(keepends=True)
    # after the declarations, which Cython requires first
    at = next(i for i, line in enumerate(lines) if not line.startswith("    cdef "))
    body = "".join([*lines[:at], "    planted_work()\n", *lines[at:]])
    return (head + FUNCTION + body).replace(BEFORE, LOOP + BEFORE)


def copied(folder: Path) -> None:
    """Copies the tree without the sources of the other modules, which are then not built again."""
    def others(where: str, names: list[str]) -> set[str]:
        return {name for name in names if name == "__pycache__" or name.endswith(".cpp")
                or (name.endswith(".pyx") and name != MODULE.name)}

    for name in ("appliance", "bench"):
        shutil.copytree(ROOT / name, folder / name, ignore=others)
    for name in ("setup.py", "pyproject.toml", "README.md"):
        shutil.copy(ROOT / name, folder / name)


def built(folder: Path, plant: bool) -> Path:
    copied(folder)
    source = folder / "appliance" / MODULE
    if plant:
        source.write_text(planted(source.read_text()))
    for old in source.parent.glob(f"{source.stem}.*.so"):
        old.unlink()
    done = subprocess.run([sys.executable, "setup.py", "--quiet", "build_ext", "--inplace"],
                          cwd=folder, capture_output=True, text=True)
    if done.returncode or not list(source.parent.glob(f"{source.stem}.*.so")):
        raise RuntimeError(f"the copy does not build:\n{done.stdout}{done.stderr}"[-4000:])
    return folder


def counted(folder: Path, rounds: int = 0) -> int:
    """Runs the counter of the copy, which imports nothing of this tree."""
    script = f"from bench import instructions; print(instructions.of_one({PATH!r}))"
    env = {**os.environ, "PYTHONPATH": str(folder), LENGTH: str(rounds)}
    done = subprocess.run([sys.executable, "-c", script], cwd=folder, env=env, capture_output=True,
                          text=True)
    if done.returncode:
        raise RuntimeError(f"no instructions counted in {folder}:\n{done.stderr}"[-4000:])
    return int(done.stdout)


def rounds_for(folder: Path, percent: float) -> int:
    """The rounds of the loop that add this percentage to an append."""
    bare, trial = counted(folder), counted(folder, TRIAL)
    each = (trial - bare) / TRIAL
    print(f"an append takes {bare:,} instructions, a round of the loop {each:.2f}", flush=True)
    return round(bare * percent / 100 / each)


def compared(folder: Path, old: int, new: int) -> list[str]:
    """The regressions that `bench compare` reports."""
    files = []
    for name, count in (("old", old), ("new", new)):
        files.append(folder / f"{name}.json")
        Run({}, 1, instructions={PATH: count}).save(files[-1])
    words = [sys.executable, "-m", "bench", "compare", *map(str, files), "--json"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
    worse = [row["what"] for row in json.loads(done.stdout)["worse"]]
    if done.returncode != bool(worse):
        raise RuntimeError(f"compare ended with {done.returncode} and reported {worse}")
    return worse


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--percent", type=float, default=20)
    parser.add_argument("--times", type=int, default=5)
    parser.add_argument("--dir", type=Path)
    given = parser.parse_args()
    caught = let_pass = 0
    with tempfile.TemporaryDirectory(dir=given.dir, prefix="planted-") as name:
        unchanged = built(Path(name, "unchanged"), plant=False)
        slower = built(Path(name, "slower"), plant=True)
        rounds = rounds_for(slower, given.percent)
        before = counted(unchanged)
        for each in range(1, given.times + 1):
            now, planted_now = counted(unchanged), counted(slower, rounds)
            is_caught = bool(compared(Path(name), before, planted_now))
            is_named = bool(compared(Path(name), before, now))
            caught, let_pass = caught + is_caught, let_pass + (not is_named)
            print(f"{each}: planted {planted_now:,} ({planted_now / before - 1:+.1%}) "
                  f"{'detected' if is_caught else 'NOT DETECTED'}; unchanged {now:,} "
                  f"({now / before - 1:+.2%}) {'REPORTED' if is_named else 'passes'}", flush=True)
            before = now
    print(f"planted: detected {caught} of {given.times}; unchanged: passes {let_pass} of "
          f"{given.times}")
    sys.exit(0 if caught == let_pass == given.times else 1)


if __name__ == "__main__":
    main()
