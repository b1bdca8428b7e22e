"""The plugin as others have it by installing the package, here also without; and what the processes
of one test run share, and the order in which it runs its files."""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling

from appliance.process import event_log

pytest_plugins = ["appliance.testing"]

# aiohttp reads the system's certificate authorities when it is imported, a twelfth of a broker's
# start. The tests start hundreds, and have authorities of their own.
os.environ["SSL_CERT_FILE"] = os.devnull

# A container's environment often has it, and each of those brokers would compile all it imports.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

OWN_JVM = "tests/spark/test_export_session.py", "tests/spark/test_spark_worker_packages.py"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files of minutes begin while there are others to run beside them; otherwise by name."""
    items.sort(key=lambda item: item.get_closest_marker("first") is None)


class Together(LoadFileScheduling):
    """A file's tests run in one process, and so do the files that share a session of Spark: its JVM
    takes 10 processor seconds to start and to be as fast as it can."""

    def _split_scope(self, nodeid: str) -> str:
        file = super()._split_scope(nodeid)
        shares = file.startswith("tests/spark/") and file not in OWN_JVM
        return "tests/spark" if shares else file


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Together | None:
    missing = [each for each in OWN_JVM if not (config.rootpath / each).exists()]
    assert not missing, f"there is no {missing}: they would share a session"
    return Together(config, log) if config.getvalue("dist") == "loadfile" else None


def pytest_collection_finish() -> None:
    """A pass of the collector looks at what tests make, not at 18,000 tests each time."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of this run: each of its processes has its own below."""
    own = tmp_path_factory.getbasetemp()
    return own.parent if "PYTEST_XDIST_WORKER" in os.environ else own


@pytest.fixture(scope="module", autouse=True)
def _a_file_leaves_the_environment_as_it_was() -> Iterator[None]:
    """What one file sets would hold for those that this process runs behind it, which differ from
    run to run. Spark sets names of its own, and its session stays."""
    before = dict(os.environ)
    yield
    names = {name for name in before.keys() | os.environ.keys()
             if before.get(name) != os.environ.get(name)}  # fmt: skip
    assert not {each for each in names if not each.startswith(("PYTEST_", "SPARK_", "PYSPARK_"))}


@pytest.fixture(scope="module", autouse=True)
def _a_file_leaves_no_client_behind() -> Iterator[None]:
    """A kafka-python that nobody closed asks for its broker for good, and leaves a socket each time
    that there is none: any later test of this process would be told of it."""
    yield
    left = [each.name for each in threading.enumerate() if each.name.startswith("kafka-io")]
    assert left == [], "these clients were not closed"


@pytest.fixture(autouse=True)
def _lines_of_other_tests_do_not_count() -> None:
    """A line that another test logged is no repetition of this one's."""
    event_log.repeats.forget()
