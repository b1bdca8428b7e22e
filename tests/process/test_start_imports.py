"""What `serve` imports without, it has again afterwards."""

from __future__ import annotations

import gc
import os
import subprocess
import sys

import pytest

from appliance.process import start_imports
from tests.support.certificates import Authority

AUTHORITIES_READ = """
import gc, os, ssl
from appliance.process import start_imports
with start_imports.at_once():
    import appliance.server
from aiohttp import connector
print(connector._SSL_CONTEXT_VERIFIED.cert_store_stats()["x509_ca"])
print(ssl.create_default_context().cert_store_stats()["x509_ca"])
print(gc.isenabled(), gc.get_freeze_count() > 10_000)
"""


def test_authorities_are_read_by_who_needs_them(tmp_path_factory: pytest.TempPathFactory) -> None:
    authority = Authority(tmp_path_factory.mktemp("authority"))
    named = {**os.environ, "SSL_CERT_FILE": str(authority.trust)}
    words = [sys.executable, "-c", AUTHORITIES_READ]
    told = subprocess.run(words, env=named, capture_output=True, text=True, check=True).stdout
    assert told.split() == ["0", "1", "True", "True"]


@pytest.mark.parametrize("named", [None, "/etc/own.pem"])
def test_what_names_the_authorities_is_as_before(
    named: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SSL_CERT_FILE")
    if named:
        monkeypatch.setenv("SSL_CERT_FILE", named)
    try:
        with pytest.raises(ImportError), start_imports.at_once():
            raise ImportError("a broken installation")
    finally:
        gc.unfreeze()
    assert os.environ.get("SSL_CERT_FILE") == named
    assert gc.isenabled()
