"""Builds for the crash tests, in tests/.cache until their sources change."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

HERE = Path(__file__).resolve().parent
TESTS = HERE.parent
REPOSITORY = TESTS.parent
CACHE = TESTS / ".cache"


def digest_of(paths: Iterable[Path]) -> str:
    digest = hashlib.sha256()
    for path in sorted(paths):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


def recorder_library() -> Path:
    source = HERE / "recorder.c"
    library = CACHE / f"recorder-{digest_of([source])}.so"
    if not library.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        part = library.with_suffix(f".{os.getpid()}")
        command = [
            "gcc",
            "-O2",
            "-Wall",
            "-Wextra",
            "-Werror",
            "-shared",
            "-fPIC",
            "-pthread",
            "-o",
        ]
        subprocess.run([*command, str(part), str(source)], check=True)
        part.rename(library)
    return library


def mutant_engine() -> Path:
    """A directory for the start of PYTHONPATH: the package with planted bugs. Only modules with
    bugs are compiled, the others are as released."""
    package = REPOSITORY / "appliance"
    sources = [REPOSITORY / "setup.py"]
    for pattern in ("*.pyx", "*.pxd", "*.h", "*.py", "*.so"):
        sources += package.rglob(pattern)
    target, stamp = CACHE / "mutants", CACHE / "mutants.stamp"
    wanted = digest_of(sources)
    if stamp.exists() and stamp.read_text() == wanted:
        return target
    if target.exists():
        shutil.rmtree(target)
    environment = dict(os.environ, APPLIANCE_MUTANTS="1", APPLIANCE_BUILD_TAG="mutants")
    command = [sys.executable, "setup.py", "-q", "build_ext", "--build-lib", str(target)]
    command += ["--build-temp", str(REPOSITORY / "build" / "temp-mutants")]
    done = subprocess.run(command, cwd=REPOSITORY, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"the engine with its mutants does not build:\n{done.stderr[-3000:]}")
    built = {each.relative_to(target / "appliance") for each in target.rglob("*.so")}
    for source in (*package.rglob("*.py"), *package.rglob("*.so"), *_files_in(package / "static")):
        if source.relative_to(package) not in built:
            place = target / "appliance" / source.relative_to(package)
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, place)
    stamp.write_text(wanted)
    return target


def _files_in(folder: Path) -> list[Path]:
    """What the broker serves."""
    return [each for each in folder.rglob("*") if each.is_file()]


def engine_environment(engine: Path | None = None, **more: str) -> dict[str, str]:
    """For a subprocess: this package as `crash`, and the engine of the repository or a copy."""
    environment = {name: value for name, value in os.environ.items() if name != "APPLIANCE_MUTANT"}
    paths = [str(engine or REPOSITORY), str(TESTS)]
    environment["PYTHONPATH"] = os.pathsep.join(paths)
    environment.update(more)
    return environment


def run_module(
    module: str, *arguments: object, environment: dict[str, str], seconds_max: float = 600
) -> subprocess.CompletedProcess[str]:
    """Runs `python -m module` to its end; not in the repository, whose engine would come first."""
    return subprocess.run(
        command_of(module, *arguments),
        cwd=TESTS,
        env=environment,
        capture_output=True,
        text=True,
        timeout=seconds_max,
        check=False,
    )


def command_of(module: str, *arguments: object) -> list[str]:
    return [sys.executable, "-X", "faulthandler", "-m", module, *map(str, arguments)]


def recorded(trace: Path, root: Path, environment: dict[str, str], **more: str) -> dict[str, str]:
    """`environment` with the recorder on `root`."""
    return (
        environment
        | {
            "LD_PRELOAD": str(recorder_library()),
            "CRASH_TRACE": str(trace),
            "CRASH_ROOT": str(root),
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        | more
    )


def scratch() -> Path:
    """The folder for states: in memory if the machine has such a file system."""
    shared = Path("/dev/shm")
    return (
        shared
        if shared.is_dir() and os.access(shared, os.W_OK)
        else Path(os.environ.get("TMPDIR", "/tmp"))
    )
