"""The console's files as a browser gets them; what they look like is tested in a browser."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import json
import re
import time
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator
from email.message import Message
from pathlib import Path

import pytest

from appliance.admin import live
from appliance.admin.console import STATIC, Console
from appliance.testing import RunningBroker, running_broker

# Bytes, compressed: all that a browser ever has to load. The form of an export has 7,000 of them.
PAYLOAD_MAX = 170_000
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


def test_traffic_comes_by_the_second_and_ends_with_the_broker(tmp_path: Path) -> None:
    # nobody looks here for a broker that is gone: see `support/data_plane.py`
    settings = {"listeners": "PLAINTEXT://127.0.0.2:0"}
    with (
        running_broker(tmp_path, settings) as broker,
        urllib.request.urlopen(f"http://{broker.admin}/api/v1/live", timeout=20) as answer,
    ):
        told = [json.loads(next(traffic(answer))) for _ in range(3)]
        samples = [each for one in told for each in one["samples"]]
        numbers = [each["number"] for each in samples]
        assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
        assert samples[-1]["connections"] == 0
        begin = time.monotonic()
        broker.stop()
        assert [*traffic(answer)] == []
        assert time.monotonic() - begin < 10


def traffic(lines: Iterable[bytes]) -> Iterator[bytes]:
    lines = iter(lines)
    for line in lines:
        if line == b"event: traffic\n":
            yield next(lines).removeprefix(b"data: ")


def test_a_page_that_is_too_slow_is_told_what_it_missed() -> None:
    listener = live.Listener()
    for number in range(live.QUEUE_EVENTS_MAX + 10):
        listener.tell(live.event("traffic", number))
    told = asyncio.run(listener.news())
    assert told.startswith(b'event: skipped\ndata: {"events":10}\n\nevent: traffic\ndata: 10\n')
    assert told.count(b"event: traffic") == live.QUEUE_EVENTS_MAX


def test_a_page_that_hears_nothing_knows_that_somebody_is_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(live, "HEARTBEAT_S", 0.05)
    assert asyncio.run(live.Listener().news()) == b": nothing new\n\n"


def test_an_event_is_made_once_however_many_pages_are_open(
    appliance_broker: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[bytes] = []
    real = live.event

    def counted(name: str, told: object) -> bytes:
        made.append(real(name, told))
        return made[-1]

    address = f"http://{appliance_broker.admin}/api/v1/live"
    with contextlib.ExitStack() as pages:
        opened = [
            pages.enter_context(urllib.request.urlopen(address, timeout=20)) for _ in range(5)
        ]
        assert all(next(traffic(each)) for each in opened)
        monkeypatch.setattr(live, "event", counted)
        told = {next(traffic(each)) for _ in range(2) for each in opened}
        assert max(sum(each in one for one in made) for each in told) == 1
