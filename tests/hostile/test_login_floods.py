"""Logins in floods: what others notice, what they leave behind, and what their time tells."""

from __future__ import annotations

import os
import random
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from appliance.access.scram_keys import credentials_of
from appliance.access.user_rows import User, UserRows
from appliance.catalog.catalog import NAME, Catalog
from tests.hostile.conftest import MIB, SLOWEST_S
from tests.hostile.witness import Witness
from tests.support.certificates import Authority
from tests.support.doors import PASSWORD, Door, make_people, say, shake
from tests.support.logs import until
from tests.support.release import gate_has
from tests.support.scram_client import ScramClient
from tests.support.serving import Serving
from tests.support.tls_client import trusting

FLOOD_S = 3
LOGINS_MIN = 100  # of a flood, on a machine that has little time for it; otherwise 4,000
GROWTH_MAX = 100 * MIB


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    folder = tmp_path_factory.mktemp("broker")
    make_people(folder / "data", ada="admin", ann="none")
    made = Serving(folder, protocol="SASL_PLAINTEXT")
    yield made
    assert made.stop() == 0
    assert "Traceback" not in made.log, made.log[-3000:]


@pytest.mark.parametrize("kind", ["right", "wrong"])
def test_a_flood_of_logins_by_scram_leaves_time_for_who_is_there(
    broker: Serving, kind: str
) -> None:
    """With the right password, and with ever other names from ever other addresses."""
    ada = Door(broker.kafka, user="ada")
    witness = Witness(ada, f"witness-{kind}")
    try:
        witness.wait()
        broker.forget_peak()
        before, answers = broker.resident_bytes, dict(witness.answers)
        command = [sys.executable, "-m", "tests.hostile.login_flood", *map(str, broker.kafka),
                   str(FLOOD_S), kind]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stderr[-3000:]
        logins, _, each_second = map(int, done.stdout.split())
        with ada.open():
            witness.wait()
    finally:
        witness.close()
    seen = {each: witness.answers[each] - answers[each] for each in answers}
    middle = {each: round(statistics.median(witness.waits[each]), 4) for each in witness.waits}
    growth = broker.peak_bytes - before
    print(f"{kind}: {logins} logins, {each_second}/s; grew by {growth / MIB:.1f} MiB; "
          f"answers {seen}, median {middle} s, slowest {witness.slowest} s")  # fmt: skip
    assert logins >= LOGINS_MIN
    assert witness.faults == []
    assert min(seen.values()) >= 10
    assert all(witness.slowest[each] < most for each, most in SLOWEST_S.items())
    assert growth < GROWTH_MAX


# What time tells

KNOWN, ROUNDS = 10, 4  # users, and how often each name is tried: a name may fail 60 times
NOISE_S = 0.0004


@pytest.fixture
def of_one_hash(tmp_path: Path) -> Iterator[Serving]:
    """All users have SCRAM-SHA-512 alone, and failures are told at once."""
    (tmp_path / "data").mkdir()
    catalog = Catalog.open(tmp_path / "data" / NAME)
    users = [User(f"known{at}") for at in range(KNOWN)]
    rows = [credentials_of(each.name, PASSWORD)[1] for each in users]
    UserRows(catalog).change(users, credentials=rows)
    catalog.close()
    broker = Serving(tmp_path, protocol="SASL_PLAINTEXT", **{
        "connection.failed.authentication.delay.ms": 0,
        "sasl.enabled.mechanisms": "SCRAM-SHA-512,PLAIN",
        "sasl.secrets.without.encryption": "true",
    })  # fmt: skip
    yield broker
    assert broker.stop() == 0


def first_of_scram(door: Door, name: str, source: str) -> float:
    with door.open(source=source) as client:
        shake(client, "SCRAM-SHA-512")
        first = ScramClient("SCRAM-SHA-512", name, "x").first()
        return timed(lambda: say(client, first).error_code, 0)


def last_of_scram(door: Door, name: str, source: str) -> float:
    with door.open(source=source) as client:
        shake(client, "SCRAM-SHA-512")
        scram = ScramClient("SCRAM-SHA-512", name, "x")
        last = scram.final(say(client, scram.first()).auth_bytes)
        return timed(lambda: say(client, last).error_code, 58)


def plain(door: Door, name: str, source: str) -> float:
    with door.open(source=source) as client:
        shake(client, "PLAIN")
        return timed(lambda: say(client, f"\0{name}\0wrong".encode()).error_code, 58)


def timed(what: Callable[[], int], wanted: int) -> float:
    begin = time.perf_counter()
    assert what() == wanted
    return time.perf_counter() - begin


def spread(times: list[float]) -> float:
    lower, _, upper = statistics.quantiles(times, n=4)
    return upper - lower


@pytest.mark.alone
def test_the_time_of_a_login_does_not_tell_whether_there_is_such_a_user(
    of_one_hash: Serving,
) -> None:
    """Each name in turns with one that nobody has, and each try from another address, so that no
    failure is refused for those before it. On a busy machine the noise is larger, and so is what
    the test lets pass."""
    door, sources = Door(of_one_hash.kafka), iter(range(1 << 20))
    chance = random.Random(7)
    for ask in (first_of_scram, last_of_scram, plain):
        times: dict[str, list[float]] = {"known": [], "stranger": []}
        for at in range(KNOWN * ROUNDS):
            for kind in chance.sample(list(times), 2):
                place = next(sources)
                source = f"127.7.{place // 250}.{1 + place % 250}"
                times[kind].append(ask(door, f"{kind}{at % KNOWN}", source))
        known, stranger = map(statistics.median, times.values())
        noise = NOISE_S + max(map(spread, times.values())) / 2
        print(f"{ask.__name__}: known {known * 1e3:.3f} ms, stranger {stranger * 1e3:.3f} ms, "
              f"noise {noise * 1e3:.3f} ms")  # fmt: skip
        assert abs(known - stranger) < noise


# Guessers with many addresses


def test_who_guesses_from_many_addresses_does_not_come_far(tmp_path: Path) -> None:
    """Beyond the rate nobody is let in who was not here before, whatever he knows; others are."""
    make_people(tmp_path / "data", ada="admin", ann="none")
    broker = Serving(tmp_path, protocol="SASL_PLAINTEXT", **{
        "listener.name.sasl_plaintext.max.failed.authentication.rate": 3,
        "connection.failed.authentication.delay.ms": 0,
    })  # fmt: skip
    ada, ann = Door(broker.kafka, user="ada"), Door(broker.kafka, user="ann")
    ada.open(source="127.8.0.1").socket.close()
    places = (f"127.8.{high}.{low}" for high in range(1, 255) for low in range(1, 255))
    strangers = (f"127.9.{high}.{low}" for high in range(1, 255) for low in range(1, 255))
    is_over = threading.Event()

    def guess() -> None:
        while not is_over.is_set():
            source = next(places)
            assert not comes_in(replace(ann, user=f"guess {source}", password="x"), source)

    guesser = threading.Thread(target=guess)
    guesser.start()
    try:
        # In a moment between two failures she may come in, and is known at that address then.
        until(lambda: not comes_in(ann, next(strangers)))
        ada.open(source="127.8.0.1").socket.close()
    finally:
        is_over.set()
        guesser.join()
    broker.wait_for_log(r"\(max\.failed\.authentication\.rate\)")
    until(lambda: comes_in(ann, next(strangers)))
    assert broker.stop() == 0


def comes_in(door: Door, source: str) -> bool:
    try:
        door.open(source=source).socket.close()
    except AssertionError:
        return False
    return True


# What is left behind


@pytest.mark.parametrize("connections", gate_has([300], "fewer leave nothing either", [300, 1000]))
def test_connections_that_come_and_go_with_tls_and_a_login_leave_nothing(
    tmp_path: Path, connections: int
) -> None:
    authority = Authority(tmp_path / "authority")
    make_people(tmp_path / "data", ada="admin")
    own = {"ssl.keystore.location": authority.issue("server").both}
    broker = Serving(tmp_path, protocol="SASL_SSL", **own)
    door = Door(broker.kafka, trusting(authority.trust), "ada")

    def come_and_go(count: int) -> None:
        for _ in range(count):
            door.open().socket.close()

    with door.open() as stays:
        come_and_go(150)
        descriptors, before = settled_descriptors(broker, 0), broker.resident_bytes
        come_and_go(connections)
        assert settled_descriptors(broker, descriptors) <= descriptors
        growth = broker.resident_bytes - before
        print(f"{connections} connections: {descriptors} descriptors, grew by {growth} bytes")
        stays.create_topic("t")
    assert growth < 4 * MIB + connections * 1024
    assert broker.stop() == 0


def settled_descriptors(broker: Serving, most: int) -> int:
    """When the broker has seen that clients are gone."""
    end, found = time.monotonic() + 10, [-1, -2]
    while time.monotonic() < end and (found[-1] != found[-2] or found[-1] > most > 0):
        time.sleep(0.1)
        found.append(len(os.listdir(f"/proc/{broker.process.pid}/fd")))
    return found[-1]
