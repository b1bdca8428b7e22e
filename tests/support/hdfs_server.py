"""A real HDFS: Hadoop's NameNode and DataNode, a process each, on loopback with WebHDFS."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyspark
import pytest
import requests

from loadtest.ports import lasting_ports
from tests.interop.kafka_jars import LOGGING, java, of_hdfs

DEADLINE_S = 600.0
METRICS_S = 1  # for so long its counts are not counted again
ADMIN, USER = "hadoop", "ann"  # who owns all, and who exports
ROOT = "/lake"
NAMENODE = "org.apache.hadoop.hdfs.server.namenode.NameNode"
DATANODE = "org.apache.hadoop.hdfs.server.datanode.DataNode"
DFS_ADMIN = "org.apache.hadoop.hdfs.tools.DFSAdmin"
FLAGS = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto", "-Xmx512m")


class Hdfs:
    """Both can be killed, and started again with what they have."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.rpc, self.port = lasting_ports(2)
        self.url = f"webhdfs://127.0.0.1:{self.port}"
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        folder.mkdir(parents=True, exist_ok=True)
        self._configure()
        self.tool(NAMENODE, "-format", "-nonInteractive")

    def _configure(self) -> None:
        settings = {
            "fs.defaultFS": f"hdfs://127.0.0.1:{self.rpc}",
            "hadoop.tmp.dir": self.folder / "data",
            "dfs.namenode.http-address": f"127.0.0.1:{self.port}",
            "dfs.datanode.address": "127.0.0.1:0",
            "dfs.datanode.http.address": "127.0.0.1:0",
            "dfs.datanode.ipc.address": "127.0.0.1:0",
            "dfs.datanode.hostname": "127.0.0.1",
            "dfs.replication": 1,
            "dfs.blocksize": 4 << 20,
            "dfs.namenode.safemode.extension": 0,
            "dfs.namenode.redundancy.considerLoad": "false",  # else it may find its only one busy
        }
        lines = (f"<property><name>{name}</name><value>{value}</value></property>"
                 for name, value in settings.items())
        text = f"<configuration>{''.join(lines)}</configuration>"
        for name in ("core-site.xml", "hdfs-site.xml"):
            (self.folder / name).write_text(text)
        (self.folder / "hadoop-metrics2.properties").write_text(f"*.period={METRICS_S}\n")

    def _command(self, main: str, *arguments: str) -> list[str]:
        jars = Path(pyspark.__file__).parent / "jars"
        return [java(), *FLAGS, f"-Dlog4j2.configurationFile=file:{LOGGING}", "-cp",
                f"{self.folder}:{of_hdfs()}/*:{jars}/*", main, *arguments]  # fmt: skip

    def tool(self, main: str, *arguments: str) -> None:
        done = subprocess.run(self._command(main, *arguments), capture_output=True, text=True,
                              timeout=DEADLINE_S, env=_as(ADMIN))  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr

    def start(self, *mains: str) -> None:
        for main in mains or (NAMENODE, DATANODE):
            with (self.folder / f"{main.rpartition('.')[2]}.log").open("a") as log:
                self.processes[main] = subprocess.Popen(
                    self._command(main), stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                    env=_as(ADMIN))  # fmt: skip
        self._await()

    def _await(self) -> None:
        end = time.monotonic() + DEADLINE_S
        while not self._takes_files():
            for process in self.processes.values():
                assert process.poll() is None, self.folder
            assert time.monotonic() < end
            time.sleep(0.1)

    def _takes_files(self) -> bool:
        try:
            answer = self.ask("PUT", "/probe", "CREATE", overwrite="true")
        except requests.RequestException:
            return False
        return answer.status_code == requests.codes.temporary_redirect

    def kill(self, *mains: str) -> None:
        for main in mains or tuple(self.processes):
            process = self.processes.pop(main)
            process.kill()
            process.wait()

    def ask(self, method: str, path: str, op: str, **given: Any) -> requests.Response:
        """As who owns it."""
        where = f"http://127.0.0.1:{self.port}/webhdfs/v1{quote(path)}"
        return requests.request(method, where, params={"op": op, "user.name": ADMIN, **given},
                                allow_redirects=False, timeout=DEADLINE_S)  # fmt: skip

    def change(self, path: str, op: str, **given: Any) -> None:
        answer = self.ask("PUT", path, op, **given)
        assert answer.ok, answer.text

    def folder_of(self, path: str, user: str) -> None:
        self.change(path, "MKDIRS")
        self.change(path, "SETOWNER", owner=user)

    def syncs(self) -> int:
        """Of the DataNode, by its own count."""
        time.sleep(2 * METRICS_S)
        place = self.ask("PUT", "/probe", "CREATE").headers["Location"].partition("/webhdfs")[0]
        wanted = {"qry": "Hadoop:service=DataNode,name=DataNodeActivity*"}
        answer = requests.get(f"{place}/jmx", wanted, timeout=DEADLINE_S).json()
        return int(answer["beans"][0]["FsyncCount"])

    def files(self, path: str = ROOT) -> dict[str, dict[str, Any]]:
        """Also those that our own listing does not show."""
        found: dict[str, dict[str, Any]] = {}
        answer = self.ask("GET", path, "LISTSTATUS").json()
        for each in answer["FileStatuses"]["FileStatus"]:
            name = f"{path}/{each['pathSuffix']}"
            found |= self.files(name) if each["type"] == "DIRECTORY" else {name: each}
        return found


def _as(user: str) -> dict[str, str]:
    return {**os.environ, "HADOOP_USER_NAME": user}


@contextmanager
def hdfs_service(folder: Path) -> Iterator[Hdfs]:
    """With an empty folder of the user as whom commands ask."""
    hdfs = Hdfs(folder)
    try:
        hdfs.start()
        hdfs.folder_of(ROOT, USER)
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("HADOOP_USER_NAME", USER)
            yield hdfs
    finally:
        hdfs.kill()
