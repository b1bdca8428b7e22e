"""Builds the engine with the address or the thread sanitizer and runs the engine's tests on it.

    python tests/sanitizers.py [address] [thread] [pytest arguments]

Not collected: each build takes minutes and each run is many times slower than the release build.
Exits with 1 when a test fails or a sanitizer reports something that has the engine in its stacks.

CPython itself is not instrumented, so the runtime is preloaded. PYTHONMALLOC=malloc lets the
address sanitizer see Python's own buffers; leaks are not looked for, as the interpreter leaves
some. The GIL's mutex orders what two threads do under it, and the thread sanitizer takes that for
protection; only the tests in which threads are inside the engine at once can find races.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

TESTS = Path(__file__).resolve().parent
REPOSITORY = TESTS.parent
CACHE = TESTS / ".cache"
ENGINE_TESTS = (
    "bulk_http/test_bulk_http.py",
    "bulk_http/test_decoded_reads.py",
    "record/test_batch.py",
    "storage/test_group_commit.py",
    "network/test_data_plane.py",
    "network/test_produce.py",
    "network/test_large_produce.py",
    "network/test_fetch.py",
    "network/test_fetch_sessions.py",
    "network/test_fetch_from_disk.py",
    "network/test_hostile_peers.py",
    "network/test_directories_under_load.py",
    "export/test_export_parts.py",
    "groups/test_groups_offsets.py",
    "storage/test_checkpoint_journal.py",
    "network/test_list_offsets.py",
    "storage/test_log_appends.py",
    "data_dir/test_log_dir.py",
    "data_dir/test_log_dirs.py",
    "storage/test_log_durability.py",
    "storage/test_log_mirrored.py",
    "storage/test_log_reads.py",
    "storage/test_log_replication.py",
    "storage/test_log_rolls.py",
    "storage/test_log_start.py",
    "storage/test_log_times.py",
    "storage/test_log_transactions.py",
    "data_dir/test_log_writes.py",
    "data_dir/test_share_fetch_wakeups.py",
    "record/test_mirror_batches.py",
    "storage/test_producer_snapshots.py",
    "storage/test_producers.py",
    "network/test_quota.py",
    "network/test_replica_fetch.py",
    "replication/test_replica_fetcher.py",
    "replication/test_false_leaders.py",
    "record/test_producer_batch_builder.py",
    "record/test_record_reader.py",
    "storage/test_recovery.py",
    "storage/test_recovery_derived_files.py",
    "storage/test_recovery_directory.py",
    "storage/test_recovery_report.py",
    "storage/test_recovery_without_journal.py",
    "storage/test_retention.py",
    "share/test_share_reading.py",
    "storage/test_threads.py",
    "native/test_histogram.py",
    "storage/test_truncation.py",
    "topics/test_partition_moves.py",
    "topics/test_partition_copies.py",
    "topics/test_reopening.py",
    "protocol/test_wire.py",
)
# Before a login, with rights, over TLS, audited: with threads of several kinds in the engine.
OPEN_TO_ALL_TESTS = (
    "access/test_audit.py",
    "access/test_topic_decisions.py",
    "access/test_withdrawn_users.py",
    "network/test_connection_limits.py",
    "network/test_listeners.py",
    "network/test_login_gate.py",
    "network/test_rights.py",
    "network/test_tls_listener.py",
    "network/test_tls_client_certificates.py",
    "hostile/test_before_login.py",
    "hostile/test_rights_withdrawn.py",
    "hostile/test_tls_attacks.py",
)
HOSTILE = "hostile"  # its modules are shared by its tests
REPORT = re.compile(r"^(?:==\d+==)?(?:WARNING|ERROR): \w+Sanitizer: .*$", re.MULTILINE)
OURS = re.compile(r"/_\w+\.cpython-[^/]*\.so|\(_\w+\.cpython-[^/)]*\.so")
# The C library frees a thread's storage with no lock that the thread sanitizer could see.
FOREIGN = re.compile(r"_dl_deallocate_tls")
RESULT = "result.xml"


@dataclass(frozen=True)
class Sanitizer:
    name: str
    runtimes: tuple[str, ...]
    options: tuple[str, str]
    environment: dict[str, str]
    tests: tuple[str, ...]

    @property
    def folder(self) -> Path:
        return CACHE / f"sanitize-{self.name}"


SANITIZERS = {
    "address": Sanitizer(
        "address",
        ("libasan.so", "libstdc++.so.6"),
        ("ASAN_OPTIONS", "detect_leaks=0:log_path={log}:abort_on_error=0"),
        {"PYTHONMALLOC": "malloc", "TESTS_SLOW": "10"},
        (*ENGINE_TESTS, *OPEN_TO_ALL_TESTS),
    ),
    "thread": Sanitizer(
        "thread",
        ("libtsan.so",),
        ("TSAN_OPTIONS", "log_path={log}:exitcode=0:history_size=7:second_deadlock_stack=1"),
        {"THREADS_S": "10", "TESTS_SLOW": "10"},
        (
            "storage/test_group_commit.py",
            "network/test_data_plane.py",
            "network/test_produce.py",
            "network/test_large_produce.py",
            "network/test_fetch.py",
            "network/test_fetch_sessions.py",
            "network/test_fetch_from_disk.py",
            "network/test_replica_fetch.py",
            "replication/test_replica_fetcher.py",
            "replication/test_false_leaders.py",
            "storage/test_log_replication.py",
            "network/test_hostile_peers.py",
            "network/test_directories_under_load.py",
            "groups/test_groups_offsets.py",
            "data_dir/test_log_writes.py",
            "data_dir/test_share_fetch_wakeups.py",
            "network/test_quota.py",
            "storage/test_threads.py",
            "data_dir/test_log_dirs.py",
            "topics/test_partition_moves.py",
            "topics/test_partition_copies.py",
            "topics/test_reopening.py",
            *OPEN_TO_ALL_TESTS,
        ),
    ),
}


def build(sanitizer: Sanitizer) -> None:
    """The package with its tests, apart from the repository's own build."""
    print(f"building with the {sanitizer.name} sanitizer", flush=True)
    environment = {
        **os.environ,
        "APPLIANCE_SANITIZE": sanitizer.name,
        "APPLIANCE_BUILD_TAG": f"sanitize-{sanitizer.name}",
    }
    command = [sys.executable, "setup.py", "-q", "build_ext", "--build-lib", str(sanitizer.folder)]
    command += ["--build-temp", str(sanitizer.folder / "objects")]
    done = subprocess.run(
        command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(f"the engine does not build:\n{done.stderr[-4000:]}")
    for source in (REPOSITORY / "appliance").rglob("*.py"):
        to = sanitizer.folder / source.relative_to(REPOSITORY)
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source, to)
    shutil.copytree(REPOSITORY / "loadtest", sanitizer.folder / "loadtest", dirs_exist_ok=True)
    static = "appliance/static"
    shutil.copytree(REPOSITORY / static, sanitizer.folder / static, dirs_exist_ok=True)
    shutil.copy2(REPOSITORY / "pyproject.toml", sanitizer.folder)
    for folder in ("support", "data"):
        shutil.copytree(TESTS / folder, sanitizer.folder / "tests" / folder, dirs_exist_ok=True)
    shared = [each.relative_to(TESTS) for each in (TESTS / HOSTILE).glob("[!t]*.py")]
    fixtures = {Path(name).with_name("conftest.py") for name in sanitizer.tests}
    for name in [*sanitizer.tests, *shared, *fixtures, Path("conftest.py")]:
        (sanitizer.folder / "tests" / name).parent.mkdir(exist_ok=True)
        if (TESTS / name).exists():
            shutil.copy2(TESTS / name, sanitizer.folder / "tests" / name)


def runtime(name: str) -> str:
    command = [os.environ.get("CC", "gcc"), f"-print-file-name={name}"]
    found = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    if not Path(found).is_absolute():
        sys.exit(f"the compiler knows no {name}; install its sanitizer runtimes")
    return found


def environment_of(sanitizer: Sanitizer) -> dict[str, str]:
    """Of a process that runs the build; reports of those before it are gone."""
    for old in sanitizer.folder.glob("report.*"):
        old.unlink()
    variable, options = sanitizer.options
    return {
        **os.environ,
        **sanitizer.environment,
        # Brokers that tests start as processes of their own are this build, too.
        "PYTHONPATH": str(sanitizer.folder),
        "LD_PRELOAD": " ".join(map(runtime, sanitizer.runtimes)),
        variable: options.format(log=sanitizer.folder / "report"),
    }


def run(sanitizer: Sanitizer, arguments: list[str]) -> int:
    """pytest's exit code, or -1 when it did not come to its end.

    The sanitizer writes its reports to files beside the build."""
    for old in sanitizer.folder.glob(RESULT):
        old.unlink()
    environment = environment_of(sanitizer)
    tests = [f"tests/{name}" for name in sanitizer.tests]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    command += [f"--junit-xml={RESULT}", *tests, *arguments]
    if sanitizer.name == "thread":
        # Its shadow memory has no room for the randomised addresses of newer kernels.
        command = ["setarch", "-R", *command]
    code = subprocess.run(command, cwd=sanitizer.folder, env=environment, check=False).returncode
    return code if (sanitizer.folder / RESULT).exists() else -1


def reports(sanitizer: Sanitizer) -> list[str]:
    """Those that have the engine in one of their first two stacks, one of each kind and place.

    The later stacks say who made the thread or the memory; the C library's own reports have only
    there something of ours."""
    found: dict[str, str] = {}
    for path in sorted(sanitizer.folder.glob("report.*")):
        text = path.read_text(errors="replace")
        starts = [match.start() for match in REPORT.finditer(text)]
        for start, end in pairwise([*starts, len(text)]):
            report = text[start:end].strip()
            if (places := places_of(report)) and not FOREIGN.search(report):
                found.setdefault(places, report)
    return list(found.values())


def places_of(report: str) -> str:
    """The innermost line of ours in each of the first two stacks; empty when there is none."""
    stacks = [each for each in report.split("\n\n") if re.search(r"^\s*#0 ", each, re.MULTILINE)]
    lines = [next(filter(OURS.search, stack.splitlines()), "") for stack in stacks[:2]]
    return " | ".join(re.sub(r"0x[0-9a-f]+|\s+", " ", line) for line in lines if line)


def main(arguments: list[str]) -> int:
    names = [each for each in arguments if each in SANITIZERS] or list(SANITIZERS)
    arguments = [each for each in arguments if each not in SANITIZERS]
    is_bad = False
    for name in names:
        sanitizer = SANITIZERS[name]
        build(sanitizer)
        code = run(sanitizer, arguments)
        found = reports(sanitizer)
        for report in found:
            print(report, end="\n\n")
        ending = "died" if code == -1 else f"ended with {code}"
        print(f"{name}: {len(found)} reports in the engine; the tests {ending}", flush=True)
        is_bad = is_bad or bool(found) or code != 0
    return int(is_bad)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
