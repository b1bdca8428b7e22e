"""What is said of answers that Google's storage gives and fake-gcs-server does not: to who has no
credentials, wrong ones, or no right. The client is gcsfs, over a socket. And of settings of Azure
that are wrong before anything is asked."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from appliance_spark.export_layout import ExportFailed
from appliance_spark.export_store import Store
from tests.support import azure_server, gcs_server
from tests.support.object_stores import AZURE, GCS, asked


class Refusing(BaseHTTPRequestHandler):
    status, text = 0, ""

    def refuse(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        said = {"error": {"code": self.status, "message": self.text}}
        body = json.dumps(said).encode()
        self.send_response(self.status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST = do_DELETE = refuse

    def log_message(self, *_: object) -> None:
        """Silent."""


@contextmanager
def refusing(status: int, text: str) -> Iterator[str]:
    handler = type("As", (Refusing,), {"status": status, "text": text})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.mark.parametrize(("status", "text", "said"), [
    (401, "Anonymous caller does not have storage.objects.list access.",
     "there are no credentials here: set GOOGLE_APPLICATION_CREDENTIALS"),
    (401, "Request had expired authentication.",
     "does not know these credentials: check GOOGLE_APPLICATION_CREDENTIALS"),
    (403, "ann does not have storage.objects.create access to the bucket.",
     "the credentials here lack a right"),
])  # fmt: skip
def test_what_google_refuses_is_told_with_what_to_do(
    status: int, text: str, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    with refusing(status, text) as url, asked(GCS, gcs_server.settings_of(url)):
        with pytest.raises(ExportFailed) as listing:
            list(Store("gs://lake/folder").names(""))
        with pytest.raises(ExportFailed) as writing:
            Store("gs://lake/folder").check()
    for told in (listing, writing):
        assert said in str(told.value)
        assert text.rstrip(".") in str(told.value)
        assert "\n" not in str(told.value)
        assert "AWS_" not in str(told.value)
    assert [each for each in caplog.records if each.name == "gcsfs"] == []


def test_azure_settings_of_another_account_or_none_are_told(
    monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = azure_server.settings_of(f"http://127.0.0.1:1/{azure_server.ACCOUNT}")
    with (
        asked(AZURE, settings),
        pytest.raises(ExportFailed, match="STRING is of the account tester: name that one in the"),
    ):
        Store("abfs://lake@another.dfs.core.windows.net/folder").read("x")
    monkeypatch.setenv("AZURE_STORAGE_ANON", "true")
    monkeypatch.delenv("AZURE_STORAGE_CONNECTION_STRING", raising=False)
    with (
        asked(AZURE, {}),
        pytest.raises(ExportFailed, match="no credentials here: set AZURE_STORAGE_CONNECTION"),
    ):
        Store("abfs://lake/folder").read("x")
