"""Object stores of each kind, and HDFS, with one face, for tests that are asked of all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fsspec
import pytest

from appliance_spark import export_store
from tests.support import azure_server, gcs_server, s3_server
from tests.support.azure_server import azurite
from tests.support.gcs_server import fake_gcs
from tests.support.hdfs_server import USER, hdfs_service
from tests.support.release import gate_has, in_release
from tests.support.s3_server import Running, moto, versity

OF_STORES = gate_has([moto], "the same of a server for production, and of GCS and Azure",
                     [moto, versity, fake_gcs, azurite])  # fmt: skip
OF_HDFS = in_release("HDFS is a download of its own; the gate has moto", [hdfs_service])
SERVICES = [*OF_STORES, *OF_HDFS]


@dataclass(frozen=True)
class Speech:
    """How one of them is spoken to."""

    bucket: str  # as a URL
    settings: Callable[[str], dict[str, str]]
    secrets: tuple[str, ...]

    @property
    def library(self) -> Any:
        return fsspec.get_filesystem_class(self.bucket.partition(":")[0])


S3 = Speech("s3://{}", s3_server.settings_of, (s3_server.KEY, s3_server.SECRET))
GCS = Speech("gs://{}", gcs_server.settings_of, ())
AZURE = Speech(f"abfs://{{}}@{azure_server.ACCOUNT}.dfs.core.windows.net",
               azure_server.settings_of, (azure_server.KEY,))  # fmt: skip
HDFS = Speech("webhdfs://{address}/{}", lambda _: {"HADOOP_USER_NAME": USER}, ())
SPOKEN: dict[Running, Speech] = {moto: S3, versity: S3, fake_gcs: GCS, azurite: AZURE}


@dataclass(frozen=True)
class Service:
    address: str
    client: Any  # the store's usual one
    speech: Speech

    @property
    def settings(self) -> dict[str, str]:
        return self.speech.settings(self.address)

    def url(self, bucket: str) -> str:
        return self.speech.bucket.format(bucket, address=self.address)

    def spoil(self, url: str) -> None:
        self.client.pipe_file(url, b"spoiled")


@contextmanager
def store_service(running: Any, folder: Path, bucket: str) -> Iterator[Service]:
    """With an empty bucket. Commands find it by their environment."""
    if running is hdfs_service:
        with hdfs_service(folder) as hdfs, asked(HDFS, HDFS.settings("")):
            yield Service(f"127.0.0.1:{hdfs.port}", hdfs, HDFS)
        return
    speech = SPOKEN[running]
    with running(folder) as address, asked(speech, speech.settings(address)):
        client = speech.library(skip_instance_cache=True, use_listings_cache=False)
        client.mkdir(bucket)
        yield Service(address, client, speech)


@contextmanager
def asked(speech: Speech, settings: dict[str, str]) -> Iterator[None]:
    """Clients have these settings, and none that were made with others."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in settings.items():
            patch.setenv(name, value)
        forget_clients(speech)
        yield
    forget_clients(speech)


def forget_clients(speech: Speech) -> None:
    speech.library.clear_instance_cache()
    export_store._opened.cache_clear()
