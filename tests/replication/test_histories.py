"""Three brokers and three ZooKeepers as real processes, each in a network namespace of its own,
under workloads and faults: what is acknowledged is there, what was seen stays.

    python -m pytest tests/replication/test_histories.py -m release -s

    HISTORY_ROUNDS  how many rounds (1)
    HISTORY_S       how long the faults of each last (30)
    HISTORY_SEED    the seed of the first (0); the same seed has the same schedule of faults
    HISTORY_KINDS   which faults, with commas between them; else all
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.crash import loop_disk
from tests.replication.histories import network
from tests.replication.histories.ensemble import ZooKeepers, ensemble
from tests.replication.histories.network import Network
from tests.replication.histories.rounds import Result, play
from tests.replication.histories.schedule import BROKERS, KINDS, ZOOKEEPERS, schedule

ROUNDS = int(os.environ.get("HISTORY_ROUNDS", "1"))
ROUND_S = float(os.environ.get("HISTORY_S", "30"))
SEED = int(os.environ.get("HISTORY_SEED", "0"))
WANTED = os.environ.get("HISTORY_KINDS", "")
TICK_MS = 500
SESSION_MS = int(os.environ.get("HISTORY_SESSION_MS", "3000"))
WHY_NOT = network.why_not() or loop_disk.why_not()


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Network, ZooKeepers]]:
    with ExitStack() as stack:
        found = stack.enter_context(Network([*BROKERS, *ZOOKEEPERS]))
        folder = tmp_path_factory.mktemp("ensemble")
        yield found, stack.enter_context(ensemble(found, folder, TICK_MS))


@pytest.fixture(scope="module")
def results(request: pytest.FixtureRequest) -> Iterator[list[Result]]:
    """Their sum is told at the end."""
    found: list[Result] = []
    yield found
    if found:
        tell(request, summary(found))


def tell(request: pytest.FixtureRequest, words: str) -> None:
    capture = request.config.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled():
        print(f"\n{words}", flush=True)


def summary(results: list[Result]) -> str:
    acked: Counter[str] = Counter()
    faults: Counter[str] = Counter()
    anomalies: Counter[str] = Counter()
    for each in results:
        acked += each.acked
        faults += each.faults
        anomalies.update(each.counts)
    by_kind = ", ".join(f"{count} {kind}" for kind, count in faults.most_common())
    return (
        f"{len(results)} rounds of {results[0].seconds:.0f} s: {sum(acked.values())} acknowledged "
        f"({', '.join(f'{count} {kind}' for kind, count in acked.items())}; "
        f"{sum(each.lost_by_leaders for each in results)} of acks=1 lost with leaders), "
        f"{sum(each.scans for each in results)} scans, {sum(each.commits for each in results)} "
        f"commits; {sum(faults.values())} faults: {by_kind}; healed within "
        f"{max(each.healed_s for each in results):.1f} s; lost {anomalies['lost']}, gone "
        f"{anomalies['gone'] + anomalies['changed']}, stuck {anomalies['stuck']}; "
        f"all anomalies: {dict(anomalies) or 'none'}"
    )


# kafka-python's clients leave the sockets of brokers that died to the garbage collector.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT)
@pytest.mark.release("minutes; tests/replication/test_three_brokers.py has a few of the faults")
@pytest.mark.parametrize("seed", range(SEED, SEED + ROUNDS))
def test_what_is_acknowledged_survives_all_faults(
    seed: int,
    places: tuple[Network, ZooKeepers],
    results: list[Result],
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    kinds = [each.strip() for each in WANTED.split(",") if each.strip()] or [*KINDS]
    planned = schedule(seed, ROUND_S, SESSION_MS / 1000, kinds)
    folder = tmp_path_factory.mktemp(f"history-{seed}-")
    result = play(seed, ROUND_S, planned, *places, folder, SESSION_MS)
    results.append(result)
    tell(request, "\n".join([str(result), *([result.words] if result.counts else [])]))
    assert not result.counts, "\n".join([*result.told, f"logs are in {folder}"])
