"""HDFS over HTTP (WebHDFS), as `export_store` asks a store: fsspec's client, and what it lacks.

A file becomes new under its name by a rename, which HDFS never does over a file that is there. Its
answer says whether it did, which fsspec throws away. What is written is one request, synced to the
disks of its DataNodes before the answer; fsspec appends part by part, which nobody syncs.

A file in HDFS is there from its first byte on, and stays if its writer is killed. So all but data,
which only a manifest makes count, is written under another name first, which no listing shows.
"""

from __future__ import annotations

import getpass
import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPConnection, HTTPException
from json import loads
from typing import Any
from urllib.parse import urlsplit

from fsspec.implementations.webhdfs import WebHDFS
from requests.adapters import HTTPAdapter
from urllib3.util.retry import Retry

CONNECT_S, WAIT_S = 10.0, 120.0
# A request that is repeated comes to the same. A rename that was done already is told by what is
# there then.
REPEATED = Retry(total=3, backoff_factor=0.5, allowed_methods=None, status=0)
SYNCED = "CREATE,SYNC_BLOCK"
APART = "."  # begins names of files that are not whole yet
LEFT_MS = 600_000  # files that have not become whole for so long are of a writer that was killed
CREATED, WRONG = 201, 400


class HdfsRefused(Exception):
    """With the name that Hadoop has for the reason, or the status of HTTP."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(text)
        self.kind = kind


class HdfsFiles(WebHDFS):  # type: ignore[misc]
    cachable = False  # `export_store` keeps it

    def __init__(self, host: str, port: int, root: str) -> None:
        """As who Hadoop's own client would ask."""
        self._root = root
        super().__init__(host, port, user=os.environ.get("HADOOP_USER_NAME") or getpass.getuser())

    def _connect(self) -> None:
        super()._connect()
        self.session.trust_env = False  # a proxy of the environment is not for DataNodes
        self.session.mount("http://", Patient(max_retries=REPEATED))
        self.session.hooks["response"].append(_refuse)

    def cat_file(self, path: str, *_: Any, **__: Any) -> bytes:
        found: bytes = self._call("OPEN", path=path).content
        return found

    def exists(self, path: str, **_: Any) -> bool:
        """fsspec takes each error for a no."""
        try:
            self.info(path)
        except FileNotFoundError:
            return False
        return True

    def find(self, path: str, *_: Any, **__: Any) -> list[str]:
        return [each["name"] for each in self._files(path) if not _is_apart(each)]

    def _files(self, path: str) -> Iterator[dict[str, Any]]:
        """fsspec's walk goes on without a folder that it could not read."""
        folders = [path.rstrip("/")]
        while folders:
            try:
                found = self.ls(folders.pop(), detail=True)
            except FileNotFoundError:  # deleted meanwhile, or never there
                continue
            folders += [each["name"] for each in found if each["type"] == "directory"]
            yield from (each for each in found if each["type"] == "file")

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **_: Any) -> None:
        """FileExistsError: in mode `create`, if there is one, also if it is ours by a first try."""
        folder, _slash, name = path.rpartition("/")
        apart = f"{folder}/{APART}{name}+{uuid.uuid4().hex}"
        is_done = False
        try:
            self._write(apart, value)
            is_done = self._renamed(apart, path) if mode == "create" else (
                self._replaced(apart, path, value))
        finally:
            if not is_done:  # also if we do not know: from now on it cannot be done any more
                with suppress(Exception):
                    self.rm(apart)
        if not is_done:
            raise FileExistsError(path)

    def _write(self, path: str, value: bytes) -> None:
        file = HdfsUpload(self, path)
        file.write(value)
        file.close()

    def _renamed(self, apart: str, path: str) -> bool:
        return self._call("RENAME", "put", apart, destination=path).json()["boolean"] is True

    def _replaced(self, apart: str, path: str, value: bytes) -> bool:
        """With options the answer is empty, or an error."""
        try:
            answer = self._call("RENAME", "put", apart, destination=path, renameoptions="OVERWRITE")
        except FileNotFoundError:  # it was done already, and the answer was lost
            return self.cat_file(path) == value
        return not answer.content

    def rm_file(self, path: str, **_: Any) -> None:
        """And folders of the target that are empty now; a store has none, and listings ask each."""
        self.rm(path)
        folder = path.rpartition("/")[0]
        with suppress(HdfsRefused):  # it has other files
            while folder.startswith(f"{self._root}/"):
                self.rm(folder)
                folder = folder.rpartition("/")[0]

    def forget_parts(self) -> int:
        """What killed writers left under other names. To take it from a writer that only sleeps
        does no harm: its rename fails."""
        found = list(self._files(self._root))
        now_ms = max((each["modificationTime"] for each in found), default=0)  # by HDFS's clock
        left = [each["name"] for each in found
                if _is_apart(each) and each["modificationTime"] < now_ms - LEFT_MS]
        for name in left:
            self.rm_file(name)
        return len(left)

    def _open(self, path: str, mode: str = "rb", *given: Any, **named: Any) -> Any:
        if mode == "wb":
            return HdfsUpload(self, path)
        return super()._open(path, mode, *given, **named)

    def place_of(self, path: str) -> str:
        """The URL at a DataNode to which a new file is sent."""
        answer = self._call("CREATE", "put", path, redirect=False, overwrite="false",
                            createflag=SYNCED)
        place: str = answer.headers.get("Location", "")
        if not place.startswith("http://"):
            raise HdfsRefused("NoDataNode", f"got {place[:99] or 'none'} for a DataNode's address, "
                              "wanted one of http://: TLS is not supported")
        return place


class HdfsUpload:
    """A new file. What is written is at its DataNode, and nothing of it here."""

    def __init__(self, files: HdfsFiles, path: str) -> None:
        self._files, self._path, self._size, self.closed = files, path, 0, False
        place = urlsplit(files.place_of(path))
        self._at = HTTPConnection(place.netloc, timeout=WAIT_S)
        with self._told():
            self._at.putrequest("PUT", f"{place.path}?{place.query}")
            self._at.putheader("Content-Type", "application/octet-stream")
            self._at.putheader("Transfer-Encoding", "chunked")
            self._at.endheaders()

    def write(self, data: Any) -> int:
        size = memoryview(data).nbytes
        if size:  # an empty chunk would end the file
            self._send(b"%x\r\n%b\r\n" % (size, data))
            self._size += size
        return size

    def _send(self, data: bytes) -> None:
        with self._told():
            try:
                self._at.send(data)
            except OSError:  # refused before the end: the answer says why, if there is one
                self._check_answer()
                raise

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except (FileExistsError, FileNotFoundError):
            raise
        except (OSError, HTTPException) as error:
            said = f"{self._at.host}:{self._at.port}: {type(error).__name__}: {error}"
            raise HdfsRefused("DataNode", said) from error

    def tell(self) -> int:
        return self._size

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            self._send(b"0\r\n\r\n")
            with self._told():
                self._check_answer()
            self._at.close()

    def _check_answer(self) -> None:
        answer = self._at.getresponse()
        body = answer.read()
        if answer.status != CREATED:
            raise _error(answer.status, answer.reason, body)

    def discard(self) -> None:
        self._at.close()
        self._files.rm_file(self._path)


class Patient(HTTPAdapter):
    def send(self, request: Any, *given: Any, **named: Any) -> Any:
        """fsspec would wait for ever."""
        return super().send(request, *given, **{**named, "timeout": (CONNECT_S, WAIT_S)})


def _is_apart(file: dict[str, Any]) -> bool:
    return bool(file["pathSuffix"].startswith(APART))


def _refuse(answer: Any, *_: Any, **__: Any) -> None:
    """fsspec reads a DataNode's error as if it were the file."""
    if answer.status_code >= WRONG:
        raise _error(answer.status_code, answer.reason, answer.content)


def _error(status: int, reason: str, body: bytes) -> Exception:
    try:
        told = loads(body)["RemoteException"]
        kind, text = str(told["exception"]), str(told["message"]).partition("\n")[0]
    except (ValueError, KeyError, TypeError):
        return HdfsRefused(str(status), f"HTTP {status} {reason}")
    if kind == "FileNotFoundException":
        return FileNotFoundError(text)
    if kind == "FileAlreadyExistsException":
        return FileExistsError(text)
    return HdfsRefused(kind, text)
