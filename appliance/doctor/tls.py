"""Certificates of the ports: those that have ended, or will soon, and what clients refuse. The one
judge for health and doctor, of Kafka's listeners and of the ports of HTTP."""

from __future__ import annotations

import time
from collections.abc import Iterator

from appliance.certificates.https import mark_of
from appliance.certificates.used_by_ports import chain_of, ports_by_tls, trusted_by
from appliance.config import BrokerConfig, SettingInvalid, TlsConfig
from appliance.doctor.check import Check, Verdict

WHY = "on the day after its end no client comes in"
FIX = (
    "put a new certificate in its place: it is read again without a restart (`appliance tls check`)"
)


AGE_S = 60.0  # of a look at files that stay as they are


class CertificateLook:
    """The last look at all of them, for health."""

    def __init__(self) -> None:
        self.checks: list[Check] = []
        self._seen: object = None
        self._until = 0.0  # of time.monotonic()

    def again(self, config: BrokerConfig) -> None:
        """Reads files: for a thread."""
        seen = [mark_of(path) for tls, _ in ports_by_tls(config) for path in tls.files]
        if seen != self._seen or time.monotonic() >= self._until:
            self.checks = [*checks(config)]
            self._seen, self._until = seen, time.monotonic() + AGE_S


def checks(config: BrokerConfig) -> Iterator[Check]:
    for tls, ports in ports_by_tls(config):
        yield from of_store(tls, ", ".join(ports) or "no port")


def of_store(tls: TlsConfig, ports: str) -> Iterator[Check]:
    # with cryptography: a start without TLS spares it, one with TLS looks before it is ready
    from appliance.certificates.certificate import dates_of, facts_of, faults_of

    name = f"certificate {tls.keystore.name}"
    try:
        chain, trusted = chain_of(tls), trusted_by(tls)
    except (SettingInvalid, OSError) as error:
        yield Check(name, "failing", str(error), "the broker does not start with it", FIX)
        return
    faults = [*faults_of(chain), *(f"trust store: {each}" for each in dates_of(trusted))]
    for text in faults:
        verdict: Verdict = "failing" if "it expired" in text else "degraded"
        yield Check(name, verdict, f"certificate of {ports}: {text}", WHY, FIX)
    if not faults:
        yield Check(name, "ok", f"{facts_of(chain[0]).days_left} days left ({ports})", WHY)
