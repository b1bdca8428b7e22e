"""An object store as the target of an export, by fsspec: what a target does with one, and no more.

    put_new   writes an object if there is none of this name: this is what commits
    put       writes it in any case
    upload    a new object, written bit by bit by a worker; it is there once it is closed
    open, read, names, delete

There is no rename (HDFS has one: `export_hdfs`). Where the service is, and who asks, is read
from the settings of its library (AWS_ENDPOINT_URL, AWS_ACCESS_KEY_ID, ~/.aws/…), here and at each
worker: no credential is an option of a command, or in a URL, so none is in a log, a report or a
manifest.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, BinaryIO
from urllib.parse import urlsplit

from appliance.export import store_urls
from appliance_spark.export_layout import FILES_OPEN_MAX, ExportFailed
from appliance_spark.export_store_errors import in_words, is_exists, is_no_bucket, no_bucket

# In memory, of all uploads of a task together, until they are sent. A library's own part of 50 MiB
# would be 3 GiB, for each of a worker's tasks.
UPLOADS_HELD_MAX = 512 << 20
# Each upload holds less than one: of 8 MiB, as Amazon's tools send. S3 takes no smaller ones than
# 5 MiB, and 10,000 of a file: 80 GiB.
PART_BYTES = UPLOADS_HELD_MAX // FILES_OPEN_MAX


@lru_cache(maxsize=8)
def _opened(url: str) -> tuple[Any, str]:
    """The file system and the root within it."""
    try:
        if store_urls.is_hdfs(url):
            fs, root = _hdfs(url)
        else:
            import fsspec

            _hush()
            fs, root = fsspec.core.url_to_fs(url, use_listings_cache=False)
    except ImportError as error:
        raise ExportFailed(
            f"{url}: this target needs {error.name or error}, which is not installed here: "
            f"pip install '{store_urls.package_of(url)}'") from error
    except ValueError as error:  # a setting that the library does not understand, or lacks
        raise ExportFailed(in_words(url, error)) from error
    _check_account(url, fs)
    return fs, str(root).rstrip("/")


def _hdfs(url: str) -> tuple[Any, str]:
    from appliance_spark.export_hdfs import HdfsFiles

    place = urlsplit(url)
    return HdfsFiles(str(place.hostname), place.port or 0, place.path), place.path


def _check_account(url: str, fs: Any) -> None:
    """Azure's connection string counts more than the URL: the files would be in another account
    than the one that manifests and tables name."""
    container, _, host = urlsplit(url).netloc.rpartition("@")
    found = getattr(getattr(fs, "service_client", None), "account_name", None)
    if container and found and found != host.partition(".")[0]:
        raise ExportFailed(
            f"{url}: AZURE_STORAGE_CONNECTION_STRING is of the account {found}: name that one in "
            "the URL, or set the string of this one")


def _hush() -> None:
    """gcsfs logs a traceback of each error that we tell in a line, and a warning with each request
    of who may not read the bucket's type. Who has set a level keeps it."""
    log = logging.getLogger("gcsfs")
    if log.level == logging.NOTSET:
        log.setLevel(logging.CRITICAL)


@dataclass(frozen=True)
class Store:
    """Workers get it as it is, and open it there."""

    url: str

    def __str__(self) -> str:
        return self.url

    @property
    def _fs(self) -> Any:
        return _opened(self.url)[0]

    def _at(self, name: str) -> str:
        return f"{_opened(self.url)[1]}/{name}"

    @contextmanager
    def _told(self, name: str) -> Iterator[None]:
        """A missing object is for who asked for it; a missing bucket is not."""
        try:
            yield
        except ExportFailed:
            raise
        except FileNotFoundError as error:
            if is_no_bucket(error):
                raise ExportFailed(in_words(f"{self.url}/{name}", error)) from error
            raise
        except Exception as error:  # each library has its own
            raise ExportFailed(in_words(f"{self.url}/{name}", error)) from error

    @contextmanager
    def _in_bucket(self, name: str) -> Iterator[None]:
        """What is written or listed need not be there, so what is not found is the bucket."""
        try:
            with self._told(name):
                yield
        except FileNotFoundError as error:
            where = f"{self.url}/{name}"
            told = in_words(where, error) if store_urls.is_hdfs(self.url) else no_bucket(where)
            raise ExportFailed(told) from error

    def read(self, name: str) -> bytes:
        """FileNotFoundError: there is none."""
        with self._told(name):
            return bytes(self._fs.cat_file(self._at(name)))

    def put(self, name: str, data: bytes) -> None:
        with self._in_bucket(name):
            self._fs.pipe_file(self._at(name), data)

    def put_new(self, name: str, data: bytes) -> bool:
        """Whether there was none. No two writers with different data are both told so. A first try
        whose answer was lost meets its own object at the second: then it is what was wanted."""
        with self._in_bucket(name):
            try:
                self._fs.pipe_file(self._at(name), data, mode="create")
            except Exception as error:
                if not is_exists(error):
                    raise
                with suppress(FileNotFoundError):
                    return self.read(name) == data
                raise
            return True

    def names(self, below: str) -> Iterator[str]:
        """Of all objects there."""
        with self._in_bucket(below):
            found = sorted(self._fs.find(self._at(below)))
            if not found and self.url.startswith("abfs"):
                self._check_container()
        root = self._at("")
        for each in found:
            yield str(each)[len(root):]

    def _check_container(self) -> None:
        """Its library lists a container that is not there as an empty one. This needs no other
        right than to list."""
        from fsspec.asyn import sync

        container, _, folder = self._at("").partition("/")

        async def look() -> None:
            client = self._fs.service_client.get_container_client(container)
            async for _ in client.list_blobs(name_starts_with=folder, results_per_page=1):
                return

        sync(self._fs.loop, look)

    def exists(self, name: str) -> bool:
        with self._told(name):
            return bool(self._fs.exists(self._at(name)))

    def delete(self, names: Iterable[str]) -> None:
        for name in names:
            with suppress(FileNotFoundError), self._told(name):
                self._fs.rm_file(self._at(name))

    def open(self, name: str) -> BinaryIO:
        with self._told(name):
            found: BinaryIO = self._fs.open(self._at(name), "rb")
            return found

    def upload(self, name: str) -> Upload:
        with self._in_bucket(name):
            file = self._fs.open(self._at(name), "wb", block_size=PART_BYTES)
            return Upload(self, name, file)

    def check(self) -> None:
        """Before anything is exported: whether we may write and delete, and whether the store
        refuses to write twice what it is told to write once."""
        name = f"_export/probe-{uuid.uuid4().hex}"
        try:
            if not self.put_new(name, b"1"):
                raise ExportFailed(f"{self.url}/{name} was there already")
            if self.put_new(name, b"2"):
                raise ExportFailed(
                    f"{self.url}: this store overwrites an object that it was asked to write only "
                    "if there is none (S3: If-None-Match: *, HDFS: a rename), so two runs at once "
                    "could both commit. Use a store that has conditional writes, or export to a "
                    "path")
        finally:
            self._forget(name)

    def _forget(self, name: str) -> None:
        """The first error is the one that counts."""
        with suppress(ExportFailed):
            self.delete([name])

    def abort_uploads(self, is_over: Any) -> int:
        """Uploads in parts that a killed worker left in an S3 store, where they cost room and are
        seen in no listing; in HDFS, files that did not become whole. Others forget such parts by
        themselves, after a week."""
        if store_urls.is_hdfs(self.url):
            with self._told(""):
                return int(self._fs.forget_parts())
        if not self.url.startswith("s3://"):
            return 0
        count = 0
        with self._told(""):
            for upload in list(self._uploads()):
                if is_over(upload["Key"].rpartition("/")[2]):
                    self._abort(upload)
                    count += 1
        return count

    def _uploads(self) -> Iterator[dict[str, Any]]:
        bucket, _, folder = self._at("").partition("/")
        after: dict[str, str] = {}
        while True:
            found = self._fs.call_s3(
                "list_multipart_uploads", Bucket=bucket, Prefix=folder, **after)
            yield from found.get("Uploads", [])
            if not found.get("IsTruncated"):
                return
            after = {"KeyMarker": found["NextKeyMarker"],
                     "UploadIdMarker": found["NextUploadIdMarker"]}

    def _abort(self, upload: dict[str, Any]) -> None:
        bucket = self._at("").partition("/")[0]
        try:
            self._fs.call_s3("abort_multipart_upload", Bucket=bucket, Key=upload["Key"],
                             UploadId=upload["UploadId"])
        except FileNotFoundError:
            return  # it ended meanwhile


class Upload:
    """A new object. Small ones go in one request, larger ones in parts."""

    def __init__(self, store: Store, name: str, file: Any) -> None:
        self._store, self._name, self._file = store, name, file

    def write(self, data: Any) -> int:
        with self._store._in_bucket(self._name):
            return int(self._file.write(data))

    def tell(self) -> int:
        return int(self._file.tell())

    def flush(self) -> None:
        """The library sends a part when it is full; there is nothing to send before."""

    def close(self) -> None:
        """Azure's library leaves a file open that it could not send, tries again when it is
        collected, and waits for ever if that is when the process ends."""
        try:
            with self._store._in_bucket(self._name):
                self._file.close()
        except ExportFailed:
            self.abandon()
            raise

    def abandon(self) -> None:
        """Without this the library would complete the object when it is collected."""
        if not self._file.closed:
            self._file.closed = True
            with suppress(Exception):  # the error that ends the task counts; the next run aborts it
                self._file.discard()
