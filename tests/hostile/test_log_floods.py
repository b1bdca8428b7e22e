"""Requests that would cause many log lines."""

from __future__ import annotations

from pathlib import Path

from appliance.protocol.messages.alter_client_quotas import AlterClientQuotasRequest as Quotas
from appliance.protocol.messages.alter_client_quotas import AlterClientQuotasResponse
from tests.support.serving import Serving
from tests.support.wire_client import WireClient, frame_of

MIB = 1 << 20


def quotas(number: int, size: int) -> Quotas:
    """The largest allowed request, with new names of `size` characters."""
    entries = []
    for i in range(1_900_000 // (size + 60)):
        name = f"{number}-{i}-".ljust(size, "x")
        entity = [Quotas.EntityData("client-id", name)]
        entries.append(Quotas.EntryData(entity, [Quotas.OpData("request_percentage", 1.0)]))
    return Quotas(entries)


def test_requests_that_would_fill_the_log(tmp_path: Path) -> None:
    """Names of 30,000 bytes, which are refused, and of 1,000, which soon exceed the limit."""
    broker = Serving(tmp_path, **{"max.entities.total": 5000})
    begin = len(broker.log)
    with WireClient(broker.kafka) as client:
        for number in range(40):
            client.send(frame_of(quotas(number, 30_000 if number % 2 else 1000), 49, 1))
            client.answer(AlterClientQuotasResponse, 49, 1)
    assert broker.peak_bytes < 400 * MIB
    assert broker.stop() == 0
    said = broker.log[begin:]
    print(f"{len(said)} bytes of log")
    assert "client quotas altered" in said
    assert len(said) < 100_000
    assert max(map(len, said.splitlines())) < 4200
