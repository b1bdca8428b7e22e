"""Where a command is sent to, and what it takes along."""

from __future__ import annotations

import io
from http.client import HTTPMessage
from urllib.request import Request

import pytest

from appliance.cli.remote.rest import Redirects, RestUnreached

PATH = "/export/v1/topics"


def sent(there: str) -> Request:
    request = Request(f"https://box:8780{PATH}", headers={"Authorization": "Bearer secret"})
    made = Redirects().redirect_request(
        request, io.BytesIO(), 307, "Temporary Redirect", HTTPMessage(), there + PATH
    )
    assert made is not None
    return made


def test_another_port_gets_no_token() -> None:
    assert sent("https://box:8781").get_header("Authorization") is None
    assert sent("https://box:8780").get_header("Authorization") == "Bearer secret"


def test_nobody_is_sent_from_tls_to_none() -> None:
    with pytest.raises(RestUnreached, match="has no TLS"):
        sent("http://box:8781")
