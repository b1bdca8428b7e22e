"""A standalone cluster whose workers have only PySpark and pyarrow; the driver sends the rest."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import sysconfig
import time
import venv
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from appliance_spark import why, worker_packages
from appliance_spark.failure_reason import SHIPPED
from tests.interop.kafka_jars import java
from tests.support.exporting import rows_in
from tests.support.spark_classes import start_flags
from tests.support.spark_data import (
    DEADLINE_S,
    Sending,
    Topics,
    a_new_jvm,
    rows_of,
    spark_session,
)
from tests.support.spark_home import class_path, spark_home
from tests.support.warm_broker import WarmBroker as Broker

pytestmark = pytest.mark.first

ROOT = Path(worker_packages.__file__).resolve().parent.parent
WORKERS = 2
THERE = ("pyspark", "py4j", "pyarrow", "numpy", "numpy.libs", "pandas", "six.py", "dateutil",
         "pytz", "tzdata")  # fmt: skip
DEPLOY = "org.apache.spark.deploy"


@pytest.fixture(scope="module")
def worker_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python with links to the packages that workers have."""
    folder = tmp_path_factory.mktemp("workers")
    venv.create(folder / "venv", with_pip=False)
    packages = Path(sysconfig.get_path("purelib"))
    into = next((folder / "venv" / "lib").glob("python*/site-packages"))
    for name in THERE:
        if (packages / name).exists():
            (into / name).symlink_to(packages / name)
    return folder / "venv" / "bin" / "python"


class Cluster:
    """A master and its workers: processes in another directory with a clean environment."""

    def __init__(self, folder: Path, python: Path) -> None:
        self.folder, self.python = folder, python
        self.processes: list[subprocess.Popen[bytes]] = []
        self.logs: list[Path] = []
        self.master = self._start("master.Master", "--host", "127.0.0.1", "--port", "0",
                                  "--webui-port", "0")  # fmt: skip
        self.url = self._told(self.master, r"Starting Spark master at (spark://\S+)")
        for _ in range(WORKERS):
            log = self._start("worker.Worker", "--host", "127.0.0.1", "--webui-port", "0",
                              "--cores", "1", "--memory", "1g", self.url)  # fmt: skip
            self._told(log, r"(Successfully registered)")

    def _start(self, main: str, *arguments: str) -> Path:
        home = spark_home()
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
        log = self.folder / f"{len(self.logs)}.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                [java(), "-Xmx256m", *start_flags(), "-cp", class_path(),
                 f"{DEPLOY}.{main}", *arguments],
                cwd=self.folder, stdout=output, stderr=output, start_new_session=True,
                env=kept | {"SPARK_HOME": str(home), "SPARK_SCALA_VERSION": "2.13",
                            "SPARK_LOCAL_IP": "127.0.0.1",
                            "SPARK_WORKER_DIR": str(self.folder / "work"),
                            "PYSPARK_PYTHON": str(self.python)},
            )  # fmt: skip
        self.processes.append(process)
        self.logs.append(log)
        return log

    def _told(self, log: Path, pattern: str) -> str:
        deadline = time.monotonic() + DEADLINE_S
        while not (found := re.search(pattern, log.read_text())):
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.1)
        return found[1]

    def stop(self) -> None:
        for process in reversed(self.processes):
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(DEADLINE_S)


@pytest.fixture(scope="module")
def cluster(worker_python: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    made = Cluster(tmp_path_factory.mktemp("cluster"), worker_python)
    yield made
    made.stop()


@pytest.fixture(scope="module")
def spark(cluster: Cluster) -> Iterator[SparkSession]:
    """Spark starts Python at the driver by the path of the workers' Python, which finds the
    driver's packages there. The workers do not get this path."""
    path = os.pathsep.join([str(ROOT), sysconfig.get_path("purelib")])
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYSPARK_PYTHON", str(cluster.python))
        patch.setenv("PYTHONPATH", path)
        with a_new_jvm(), spark_session(
            cluster.url,
            **{"spark.executor.memory": "512m", "spark.executorEnv.PYTHONPATH": "",
               "spark.executor.extraJavaOptions": " ".join(start_flags())},
        ) as session:
            yield session


def imported(spark: SparkSession, name: str) -> set[str]:
    """The file of a module at the workers; empty if they lack it."""

    def find(_: int) -> str:
        import importlib.util

        found = importlib.util.find_spec(name)
        return "" if found is None else str(found.origin)

    return set(spark.sparkContext.parallelize(range(8), 8).map(find).collect())


def test_what_is_shipped_is_all_that_workers_need(worker_python: Path, tmp_path: Path) -> None:
    """Unpacked as Spark does it, beside a process that has only what workers have."""
    wanted = (*worker_packages.TASKS, "appliance_spark.export_tasks")
    folder = tmp_path / "session"
    for package, archive in worker_packages.archives(worker_packages.modules(wanted), tmp_path):
        with zipfile.ZipFile(archive) as brought:
            brought.extractall(folder / package)
    imports = [str(worker_python), "-c",
               f"import appliance, {', '.join(wanted)}; print(appliance.__file__)"]
    lacks = subprocess.run(imports, capture_output=True, text=True, cwd=tmp_path, env={})
    assert "No module named 'appliance'" in lacks.stderr
    done = subprocess.run(imports, capture_output=True, text=True, cwd=tmp_path,
                          env={"PYTHONPATH": str(folder)})  # fmt: skip
    assert done.stdout.strip() == str(folder / "appliance" / "__init__.py"), done.stderr


CLUSTER = pytest.mark.release("what is shipped is imported above, without a cluster's four JVMs")


@CLUSTER
def test_a_cluster_runs_an_export_and_verifies_it(
    cluster: Cluster, broker: Broker, tmp_path: Path
) -> None:
    """Runs the command as a user does, before the shared session, which takes all cores."""
    sending = Sending(broker)
    topic = sending.create("exported", 4)
    for partition in range(4):
        sending.send(topic, [b"%d" % n for n in range(500)], partition, codec="zstd")
    lacks = subprocess.run([cluster.python, "-c", "import appliance_spark"], capture_output=True,
                           cwd=tmp_path, env={})  # fmt: skip
    assert b"No module named 'appliance_spark'" in lacks.stderr
    told = exported(cluster, broker, "run", topic, "--target", str(tmp_path / "lake"),
                    "--new-target")
    assert "2000 rows and 0 dead letters in 4 files" in told
    assert rows_in(tmp_path / "lake") == sending.log_of(topic)
    told = exported(cluster, broker, "verify", "--target", str(tmp_path / "lake"),
                    "--conf", "spark.cores.max=1")
    assert "the log: 2000, compacted away: 0, no longer in it: 0; 0 problems" in told
    brought = list(cluster.folder.glob("work/app-*/*/appliance_spark/export_tasks.py"))
    assert len(brought) == WORKERS + 1, brought  # a run by all workers, and what one verifies


def exported(cluster: Cluster, broker: Broker, command: str, *arguments: str) -> str:
    """The output of `appliance export` on a driver with the package; the workers lack it."""
    path = os.pathsep.join([str(ROOT), sysconfig.get_path("purelib")])
    settings = {"spark.executor.memory": "512m", "spark.executorEnv.PYTHONPATH": "",
                "spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1",
                "spark.executor.extraJavaOptions": " ".join(start_flags()),
                "spark.scheduler.minRegisteredResourcesRatio": "1.0"}
    words = [word for pair in settings.items() for word in ("--conf", "=".join(pair))]
    done = subprocess.run(
        [sys.executable, "-m", "appliance_spark.export", command, *arguments,
         "--master", cluster.url, "--admin", broker.admin, *words],
        capture_output=True, text=True, timeout=DEADLINE_S,
        env={**os.environ, "PYTHONPATH": path, "PYSPARK_PYTHON": str(cluster.python)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:] + done.stdout
    return done.stdout


@CLUSTER
def test_the_job_of_the_users_page_runs_as_it_stands(
    cluster: Cluster, broker: Broker, tmp_path: Path
) -> None:
    sending = Sending(broker)
    sending.send(sending.create("clicks", 2), [b"%d" % n for n in range(50)], 1)
    page = (ROOT / "docs" / "spark.md").read_text()
    found = re.search(r"<!-- job -->\n```python\n(.*?)```", page, re.DOTALL)
    assert found
    (tmp_path / "job.py").write_text(found[1])
    done = subprocess.run(
        [spark_home() / "bin" / "spark-submit", "--master", cluster.url,
         "--conf", "spark.executor.memory=512m", "--conf", "spark.executorEnv.PYTHONPATH=",
         "--conf", "spark.driver.host=127.0.0.1", tmp_path / "job.py", tmp_path / "out"],
        capture_output=True, text=True, timeout=DEADLINE_S, cwd=tmp_path,
        env={**os.environ, "PYSPARK_PYTHON": str(cluster.python),
             "PYSPARK_DRIVER_PYTHON": sys.executable, "SPARK_HOME": str(spark_home()),
             "PYTHONPATH": os.pathsep.join([str(ROOT), sysconfig.get_path("purelib")]),
             "APPLIANCE_URL": f"http://{broker.admin}"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:] + done.stdout
    counted = pq.read_table(tmp_path / "out").to_pylist()
    assert counted == [{"partition": 1, "count": 50}]


@CLUSTER
def test_workers_that_lack_the_package_read_and_write(spark: SparkSession, broker: Broker) -> None:
    topics = Topics(spark, broker)
    topic, target = topics.create("shipped", 4), topics.create("shipped-back", 1)
    for partition in range(4):
        topics.send(topic, [b"%d" % n for n in range(500)], partition, codec="zstd")
    assert imported(spark, "appliance") == imported(spark, "appliance_spark") == {""}
    with pytest.raises(Exception, match="appliance_spark") as failed:
        topics.read(topic).count()
    assert why(failed.value).startswith("the workers' Python has no package appliance_spark: ")
    names = worker_packages.ship(spark)
    assert {"appliance", "appliance_spark", "zstandard"} <= set(names)
    assert worker_packages.ship(spark) == []
    assert rows_of(topics.read(topic)) == topics.log_of(topic)
    (origin,) = {Path(each).parent.name for each in imported(spark, "appliance_spark.fetching")}
    assert origin == "appliance_spark"
    assert "" not in imported(spark, "appliance_spark.export_tasks")  # what an export asks for
    rows = topics.read(topic).selectExpr("value", "key")
    rows.write.format("appliance").options(**topics.options, topic=target).mode("append").save()
    assert sum(topics.log_of(target).values()) == 2000


def test_nothing_is_shipped_that_tasks_do_not_import() -> None:
    found = {name.partition(".")[0] for name in worker_packages.modules(worker_packages.TASKS)}
    assert {*SHIPPED, "_cython"} == found, "whoever lacks one of these is told to call ship"
    assert not {"aiohttp", "pyarrow", "pyspark", "numpy"} & found
    sent = worker_packages.modules(worker_packages.TASKS)
    ours = {name for name in sent if name.startswith("appliance.")}
    assert not any(name.startswith(("appliance.admin", "appliance.broker")) for name in ours)

