"""Jars for the interop tests: Apache Kafka's, its Connect's, of Spark's Kafka connector, of HDFS.
Maven downloads them once into tests/.cache.

Only their pom.xml files pin the versions. Without Java or Maven one sentence says what
to install; `make test` installs both where it may.
"""

from __future__ import annotations

import functools
import hashlib
import re
import shutil
import subprocess
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from tests.support import class_archive
from tests.support.made_once import made_once

HERE = Path(__file__).resolve().parent
PROGRAMS = HERE / "kafka"
POM = PROGRAMS / "pom.xml"
CONNECT_POM = HERE / "connect" / "pom.xml"
SPARK_POM = HERE / "spark" / "pom.xml"
S3A_POM = HERE / "s3a" / "pom.xml"
HDFS_POM = HERE / "hdfs" / "pom.xml"
LOGGING = PROGRAMS / "log4j2.properties"
CACHE = HERE.parent / ".cache"
JAVA_NEEDED = 17

# A tool runs for a second, mostly its start: only the first compiler, no parallel collector.
TOOL_FLAGS = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto", "-Xmx512m")


class KafkaUnavailable(RuntimeError):
    """Java, Maven or the jars are missing; the text has the remedy."""


def version() -> str:
    match = re.search(r"<kafka\.version>([^<]+)<", POM.read_text())
    if match is None:
        raise KafkaUnavailable(f"{POM} names no kafka.version")
    return match.group(1)


@functools.cache
def jars() -> Path:
    """The directory with all jars; the first call on a machine downloads them."""
    return _brought(POM, f"kafka-{version()}")


@functools.cache
def of_connect() -> Path:
    """A worker of Connect with its web server, and the connectors for files."""
    return _brought(CONNECT_POM, f"connect-{version()}")


@functools.cache
def of_spark() -> Path:
    """The connector and its dependencies that PySpark lacks."""
    return _brought(SPARK_POM, "spark-kafka")


@functools.cache
def of_s3a() -> Path:
    """Hadoop's access to S3, by which Spark reads from there, and what PySpark lacks for it."""
    return _brought(S3A_POM, "spark-s3a")


@functools.cache
def of_hdfs() -> Path:
    """Hadoop's NameNode and DataNode; PySpark has the rest of it."""
    return _brought(HDFS_POM, "hdfs")


@functools.cache
def sources() -> Path:
    """The jar of the client's sources, in which Kafka publishes its messages as JSON."""
    artifact = f"org.apache.kafka:kafka-clients:{version()}:jar:sources"
    wanted = CACHE / f"kafka-sources-{version()}"
    with made_once(wanted) as folder:
        if folder is not None:
            _maven("dependency:copy", f"-Dartifact={artifact}", f"-DoutputDirectory={folder}")
    return wanted / f"kafka-clients-{version()}-sources.jar"


def _brought(pom: Path, name: str) -> Path:
    named = hashlib.sha256(pom.read_bytes()).hexdigest()[:8]  # a changed file needs other jars
    wanted = CACHE / f"{name}-{named}"
    with made_once(wanted) as folder:
        if folder is not None:
            _bring(pom, folder)
    return wanted


@functools.cache
def java() -> str:
    needed = f"the tests with Apache Kafka need Java {JAVA_NEEDED} or newer"
    found = shutil.which("java")
    if found is None:
        raise KafkaUnavailable(f"{needed}: there is no 'java' on PATH")
    said = subprocess.run([found, "-version"], capture_output=True, text=True, timeout=60).stderr
    match = re.search(r'version "(\d+)', said)
    if match is None or int(match.group(1)) < JAVA_NEEDED:
        raise KafkaUnavailable(f"{needed}, found: {said.partition(chr(10))[0] or 'none that runs'}")
    return found


@functools.cache
def javac() -> str:
    """The compiler of the same JDK, for the programs in `kafka/`."""
    found = Path(java()).resolve().with_name("javac")
    if not found.exists():
        raise KafkaUnavailable(f"a JDK is needed, {java()} comes from a JRE: there is no {found}")
    return str(found)


def _bring(pom: Path, folder: Path) -> None:
    _maven("-f", str(pom), f"-Dkafka.version={version()}", "dependency:copy-dependencies",
           f"-DoutputDirectory={folder}")


def _maven(*words: str) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise KafkaUnavailable("Maven is needed once, to download jars: there is no 'mvn' on PATH")
    done = subprocess.run([maven, "-B", "-q", *words], capture_output=True, text=True, timeout=900)
    if done.returncode != 0:
        raise KafkaUnavailable(f"Maven failed at {' '.join(words)}:\n{done.stdout}{done.stderr}")


@functools.cache
def programs() -> Path:
    """The jar of our programs, all compiled at once when one changed; an archive of classes wants
    a jar."""
    sources = sorted(PROGRAMS.glob("*.java"))
    texts = b"".join(each.read_bytes() for each in sources)
    named = hashlib.sha256(jars().name.encode() + texts).hexdigest()[:16]
    wanted = CACHE / f"kafka-programs-{named}"
    with made_once(wanted) as folder:
        if folder is not None:
            _compile(sources, folder / "programs.jar")
    return wanted / "programs.jar"


def _compile(sources: Sequence[Path], jar: Path) -> None:
    with tempfile.TemporaryDirectory() as classes, zipfile.ZipFile(jar, "w") as packed:
        command = [javac(), "-Xlint:all,-serial", "-Werror", "-cp", f"{jars()}/*", "-d", classes,
                   *map(str, sources)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        for each in sorted(Path(classes).iterdir()):
            packed.write(each, each.name)


@functools.cache
def mapped_classes() -> tuple[str, ...]:
    """Flags of a JVM that maps the classes of Kafka's tools and broker, instead of loading them."""
    named = CACHE / programs().parent.name.replace("programs", "classes")
    return tuple(class_archive.start_flags(named, java(), "tests.interop.kafka_classes"))


def command(main: str, arguments: Sequence[str], flags: Sequence[str] = TOOL_FLAGS,
            sharing: Sequence[str] | None = None) -> list[str]:
    """A Java command line for a main class of Kafka's, or of ours in `classes`."""
    return [java(), *flags, *(mapped_classes() if sharing is None else sharing),
            f"-Dlog4j2.configurationFile=file:{LOGGING}", "-cp", f"{jars()}/*:{programs()}", main,
            *arguments]


def run(main: str, *arguments: str, stdin: str | None = None,
        timeout_s: float = 120) -> subprocess.CompletedProcess[str]:
    """Runs a tool to its end, also if it fails."""
    return subprocess.run(command(main, arguments), input=stdin, capture_output=True, text=True,
                          timeout=timeout_s)


def must_run(main: str, *arguments: str, stdin: str | None = None) -> str:
    """Runs a tool that must succeed. Returns its output."""
    done = run(main, *arguments, stdin=stdin)
    assert done.returncode == 0, f"{main} ended with {done.returncode}:\n{done.stdout}{done.stderr}"
    return done.stdout


def start(main: str, *arguments: str, output: IO[bytes],
          flags: Sequence[str] = TOOL_FLAGS) -> subprocess.Popen[bytes]:
    """Starts a Java process that the caller has to stop."""
    return subprocess.Popen(command(main, arguments, flags), stdin=subprocess.DEVNULL,
                            stdout=output, stderr=subprocess.STDOUT)
