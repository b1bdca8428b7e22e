"""TLS beside Apache Kafka with the same certificate: what producing, consuming and connecting cost.

    python -m bench.encrypted [--records 400000] [--rounds 5] [--handshakes 400] [--json FILE]
    python -m bench.encrypted --transfers [--client kcat|frames] [--clients 1] [--suite NAME]

Both brokers are started with a PLAINTEXT and an SSL listener, and loaded in turns, A B A B. kcat
(librdkafka) produces and consumes records of 1 KB, acks=1. Handshakes are Python's, one after the
other in one thread: full ones, and ones that resume a session by its ticket. Idle connections have
sent one request. Figures are medians, and of each ratio the lowest and the highest.

--transfers leaves out all but producing and consuming over TLS. With a client that costs little
(`frames`), with several, or with another suite of ciphers it says which side limits a transfer: of
which one the busiest thread runs longer for a GB, and sleeps less.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from bench.encrypted_client import RECORD_BYTES
from bench.encrypted_transfers import FRAMES, KCAT, Figures, Load, Peer, transfer
from bench.peers.brokers import KAFKA_FLAGS
from loadtest.ports import lasting_ports
from tests.interop.kafka_broker import KafkaBroker
from tests.interop.kafka_security import Security
from tests.support.certificates import Authority

IDLE = 1000
OURS, KAFKA = "appliance", "kafka"


def handshakes(peer: Peer, count: int, is_resumed: bool) -> Figures:
    name = "resumed handshake" if is_resumed else "full handshake"
    context, session, resumed = peer.context(), None, 0
    cpu, began = peer.cpu_seconds(), time.monotonic()
    for _ in range(count):
        with peer.connect(context, session) as line:
            resumed += line.session_reused
            session = line.session if is_resumed else None
    took = time.monotonic() - began
    return {f"{name}s/s": count / took, f"{name} cpu ms": (peer.cpu_seconds() - cpu) * 1000 / count,
            f"{name}s that resumed %": 100 * resumed / count}


def idle(peer: Peer) -> Figures:
    context, before = peer.context(), peer.resident_bytes()
    lines = [peer.connect(context, None) for _ in range(IDLE)]
    more = peer.resident_bytes() - before
    for each in lines:
        each.close()
    return {"KiB of an idle connection": more / IDLE / 1024}


def one_round(peer: Peer, topic: str, file: Path, options: argparse.Namespace) -> Figures:
    load = Load(file, options.records, options.client, options.clients)
    figures = transfer(peer, "SSL", f"{topic}-tls", load)
    if options.transfers:
        return figures
    plain = transfer(peer, "PLAINTEXT", f"{topic}-plain", load)
    figures |= {f"plain {name}": value for name, value in plain.items()}
    figures |= handshakes(peer, options.handshakes, False)
    figures |= handshakes(peer, options.handshakes, True)
    return figures


def compare(peers: Sequence[Peer], file: Path, options: argparse.Namespace,
            say: Callable[[str], None]) -> dict[str, dict[str, list[float]]]:
    """All figures by name and broker. The first round warms up."""
    results: dict[str, dict[str, list[float]]] = {}
    for number in range(options.rounds + 1):
        for peer in peers:
            say(f"round {number} of {options.rounds}, {peer.name}")
            figures = one_round(peer, f"bench-{number}", file, options)
            for name, value in figures.items() if number else ():
                results.setdefault(name, {}).setdefault(peer.name, []).append(value)
    for peer in () if options.transfers else peers:
        for name, value in idle(peer).items():
            results.setdefault(name, {})[peer.name] = [value]
    return results


def line_of(name: str, found: Mapping[str, Sequence[float]]) -> str:
    ours, theirs = found[OURS], found[KAFKA]
    ratios = sorted(a / b for a, b in zip(ours, theirs, strict=True) if b)
    spread = f"{ratios[0]:.2f}-{ratios[-1]:.2f}" if ratios else "-"
    middle = statistics.median(ratios) if ratios else float("nan")
    return (f"{name:32} {statistics.median(ours):>12,.4g} {statistics.median(theirs):>12,.4g} "
            f"{middle:>7.2f} x ({spread})")


def run(options: argparse.Namespace, directory: Path) -> dict[str, dict[str, list[float]]]:
    authority = Authority(directory / "tls")
    own = authority.issue("appliance")
    file = directory / "records"
    with file.open("wb") as out:
        for _ in range(options.records):
            out.write(os.urandom(RECORD_BYTES // 2).hex().encode()[: RECORD_BYTES - 1] + b"\n")
    suite = {"ssl.cipher.suites": options.suite} if options.suite else {}
    theirs = {f"listener.name.ssl.{name}": value for name, value in suite.items()}
    theirs["log.segment.delete.delay.ms"] = "100"
    security = Security(("PLAINTEXT", "SSL"), is_authorized=False, authority=authority,
                        settings=theirs)
    ports = zip(("PLAINTEXT", "SSL"), lasting_ports(2), strict=True)
    addresses = {name: f"127.0.0.1:{port}" for name, port in ports}
    with (
        serving(directory / "ours", addresses, own.both, suite) as pid,
        KafkaBroker(directory / "kafka", flags=KAFKA_FLAGS, security=security) as kafka,
    ):
        peers = [Peer(OURS, pid, addresses, authority.trust),
                 Peer(KAFKA, kafka.pid, kafka.addresses, authority.trust)]
        return compare(peers, file, options, lambda text: print(text, file=sys.stderr))


@contextmanager
def serving(folder: Path, addresses: Mapping[str, str], keystore: Path,
            suite: Mapping[str, str]) -> Iterator[int]:
    """Ours, with the topics of this broker as Kafka's: acks=1 and nobody waits for the disk."""
    folder.mkdir()
    words = [word for name, address in addresses.items()
             for word in ("--listen", f"{name}://{address}")]
    settings = {"ssl.keystore.location": keystore, "log.visibility": "appended", **suite}
    words += [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "appliance", "serve", "--data-dir", str(folder / "data"),
             "--admin", "127.0.0.1:0", *words], stdout=subprocess.PIPE, stderr=log, text=True)
    assert process.stdout is not None
    try:
        ready = process.stdout.readline()
        assert ready, (folder / "log").read_text()
        yield process.pid
    finally:
        process.terminate()
        process.wait(60)


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench.encrypted", description=__doc__)
    parser.add_argument("--records", type=int, default=400_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--handshakes", type=int, default=400)
    parser.add_argument("--transfers", action="store_true")
    parser.add_argument("--client", choices=[KCAT, FRAMES], default=KCAT)
    parser.add_argument("--clients", type=int, default=1)
    parser.add_argument("--suite", default="")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="encrypted-") as folder:
        results = run(options, Path(folder))
    print(f"{'':32} {OURS:>12} {KAFKA:>12}   ratio")
    for name, found in results.items():
        print(line_of(name, found))
    if options.json:
        options.json.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
