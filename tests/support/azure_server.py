"""A server that speaks the blob API of Azure's storage: Azurite, all in memory. It checks
signatures. It has no API of the Data Lake (`dfs`), which adlfs does not use."""

from __future__ import annotations

import base64
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.interop.kafka_jars import CACHE
from tests.support.alert_receivers import free_port
from tests.support.made_once import made_once
from tests.support.s3_server import served

VERSION = "3.37.0"
ACCOUNT = "tester"
KEY = base64.b64encode(b"a-secret-of-tests").decode()


@contextmanager
def azurite(folder: Path) -> Iterator[str]:
    """The URL of its account. Clients send a version of the API that is newer than it knows."""
    port = free_port()
    command = [*azurite_program(), "--blobHost", "127.0.0.1", "--blobPort", str(port),
               "--inMemoryPersistence", "--skipApiVersionCheck", "--disableTelemetry",
               "--silent"]  # fmt: skip
    with served(command, port, folder / "log", AZURITE_ACCOUNTS=f"{ACCOUNT}:{KEY}"):
        yield f"http://127.0.0.1:{port}/{ACCOUNT}"


def azurite_program() -> list[str]:
    if found := shutil.which("azurite-blob"):
        return [found]
    node, npm = shutil.which("node"), shutil.which("npm")
    assert node is not None, "wanted azurite-blob in PATH, or node and npm, which installs it"
    assert npm is not None, "wanted azurite-blob in PATH, or node and npm, which installs it"
    with made_once(CACHE / f"azurite-{VERSION}") as folder:
        if folder is not None:
            subprocess.run([npm, "install", "--no-audit", "--no-fund", "--ignore-scripts",
                            "--prefix", str(folder), f"azurite@{VERSION}"], check=True)  # fmt: skip
    started = "node_modules/azurite/dist/src/blob/main.js"
    return [node, str(CACHE / f"azurite-{VERSION}" / started)]


def settings_of(url: str, key: str = KEY) -> dict[str, str]:
    return {"AZURE_STORAGE_CONNECTION_STRING":
            f"AccountName={ACCOUNT};AccountKey={key};BlobEndpoint={url};"}  # fmt: skip


def signed_settings_of(url: str, behind: str) -> dict[str, str]:
    """By a token, which signs no headers: a relay at the URL may change them."""
    from datetime import datetime, timedelta, timezone

    from azure.storage.blob import (
        AccountSasPermissions,
        ResourceTypes,
        generate_account_sas,
    )

    token = generate_account_sas(
        ACCOUNT, KEY, ResourceTypes(container=True, object=True),
        AccountSasPermissions(read=True, write=True, delete=True, list=True, create=True),
        datetime.now(timezone.utc) + timedelta(hours=1))  # fmt: skip
    at = url + behind[behind.rindex("/"):]  # fmt: skip
    return {"AZURE_STORAGE_CONNECTION_STRING":
            f"BlobEndpoint={at};SharedAccessSignature={token};"}  # fmt: skip
