"""A server that speaks the JSON API of Google's Cloud Storage: fake-gcs-server, all in memory. It
honours `ifGenerationMatch` and parts of an upload, and asks for no credentials."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.alert_receivers import free_port
from tests.support.s3_server import built_by_go, served

VERSION = "v1.56.1"
MODULE = f"github.com/fsouza/fake-gcs-server@{VERSION}"


@contextmanager
def fake_gcs(folder: Path) -> Iterator[str]:
    """Its URL, which is also where it tells clients to send the parts of an upload."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    program = built_by_go("fake-gcs-server", VERSION, MODULE)
    command = [program, "-backend", "memory", "-scheme", "http", "-host", "127.0.0.1",
               "-port", str(port), "-external-url", url, "-public-host", f"127.0.0.1:{port}",
               "-log-level", "warn"]  # fmt: skip
    with served(command, port, folder / "log"):
        yield url


def settings_of(url: str) -> dict[str, str]:
    return {"STORAGE_EMULATOR_HOST": url, "NO_GCE_CHECK": "true"}  # it asks Google for no account
