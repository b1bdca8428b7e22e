"""The console's files as a browser gets them; what they look like is tested in a browser."""

from __future__ import annotations

import gzip
import json
import re
import time
import urllib.error
import urllib.request
from email.message import Message
from pathlib import Path
from typing import cast

import pytest

from appliance.admin.console import STATIC, Console
from appliance.admin.live import _event
from appliance.admin.process import Process
from appliance.admin.traffic import KEPT, Rates, Traffic
from appliance.testing import RunningBroker

PAYLOAD_MAX = 120_000  # bytes, compressed: all that a browser ever has to load
IMPORT = re.compile(r"""^(?:import\b|export\s*\{)[^;"']*["']([^"']+)["'];""", re.MULTILINE)
ELSEWHERE = re.compile(r"""(?:src|href|url|fetch|import)\s*[=(]\s*["'`]?(?:https?:)?//""")
OWN = sorted(each for each in STATIC.rglob("*.js"))


def get(broker: RunningBroker, path: str, **headers: str) -> tuple[bytes, Message]:
    asked = urllib.request.Request(f"http://{broker.admin}{path}", headers=headers)
    with urllib.request.urlopen(asked, timeout=20) as answer:
        return answer.read(), answer.headers


def test_the_page_names_files_that_are_there_for_good(appliance_broker: RunningBroker) -> None:
    page, headers = get(appliance_broker, "/")
    assert headers["Cache-Control"] == "no-cache"
    named = re.findall(r'(?:src|href)="(/assets/[^"]+)"', page.decode())
    assert len(named) > 10
    for path in named:
        body, of_file = get(appliance_broker, path)
        assert body
        assert "immutable" in of_file["Cache-Control"]
        assert of_file["X-Content-Type-Options"] == "nosniff"


def test_nothing_but_ours_may_run(appliance_broker: RunningBroker) -> None:
    _, headers = get(appliance_broker, "/")
    policy = dict(
        each.strip().split(" ", 1) for each in headers["Content-Security-Policy"].split(";")
    )
    assert policy["default-src"] == policy["frame-ancestors"] == policy["base-uri"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"


def test_files_come_compressed_to_who_takes_that(appliance_broker: RunningBroker) -> None:
    path = f"{Console().prefix}/app.css"
    plain, _ = get(appliance_broker, path)
    packed, headers = get(appliance_broker, path, **{"Accept-Encoding": "gzip"})
    assert headers["Content-Encoding"] == "gzip"
    assert gzip.decompress(packed) == plain


@pytest.mark.parametrize(
    "path",
    [
        "/assets/",
        "/assets/000000000000/app.js",
        "/static/app.js",
        "/assets/../../etc/passwd",
        "/app.js",
    ],
)
def test_no_path_leads_elsewhere(appliance_broker: RunningBroker, path: str) -> None:
    with pytest.raises(urllib.error.HTTPError) as refused:
        get(appliance_broker, path)
    with refused.value:
        assert refused.value.code == 404


def test_all_of_it_is_small() -> None:
    console = Console()
    assert sum(len(each.packed) for each in [console.page, *console.assets]) < PAYLOAD_MAX


@pytest.mark.parametrize("file", OWN, ids=lambda file: file.relative_to(STATIC).as_posix())
def test_modules_import_what_is_there_and_nothing_is_loaded_from_elsewhere(file: Path) -> None:
    text = file.read_text()
    assert IMPORT.findall(text) or "import" not in text
    for name in IMPORT.findall(text):
        assert name.startswith("."), name
        assert (file.parent / name).resolve().is_file(), name
    assert not ELSEWHERE.search(text)
    assert "innerHTML" not in text  # what a message holds is shown, never read as a page


def test_a_changed_file_has_another_name(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text("{assets} {preload}")
    (tmp_path / "a.js").write_text("1")
    before = Console(tmp_path)
    (tmp_path / "a.js").write_text("2")
    assert before.prefix != Console(tmp_path).prefix
    assert before.page.body.decode().count(before.prefix) == 2


def test_the_libraries_are_named_with_their_licences() -> None:
    told = (STATIC / "vendor" / "README.md").read_text()
    for file in (STATIC / "vendor").iterdir():
        assert file.name == "README.md" or f"`{file.name}`" in told, file.name


def test_traffic_comes_by_the_second_and_ends_with_the_broker(
    appliance_broker: RunningBroker,
) -> None:
    address = f"http://{appliance_broker.admin}/api/v1/live"
    with urllib.request.urlopen(address, timeout=20) as answer:
        lines = (line for line in answer if line.startswith(b"data: "))
        told = [json.loads(next(lines)[6:]) for _ in range(2)]
        samples = [each for one in told for each in one["samples"]]
        numbers = [each["number"] for each in samples]
        assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
        assert samples[-1]["connections"] == 0
        begin = time.monotonic()
        appliance_broker.stop()
        assert [*lines] == []
        assert time.monotonic() - begin < 10


def test_a_reader_that_was_slow_is_told_what_it_missed() -> None:
    traffic = Traffic(cast(Process, None))
    for _ in range(KEPT + 10):
        traffic._add(Rates(1, 2, 3, 4), 5)
    told = json.loads(_event(traffic.since(4), 4)[6:])
    assert (told["skipped"], len(told["samples"])) == (6, KEPT)
    assert traffic.since(KEPT + 10) == []
