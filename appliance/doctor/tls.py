"""Certificates of the ports: those that have ended, or will soon, and what clients refuse."""

from __future__ import annotations

from collections.abc import Iterator

from appliance.certificates.certificate import dates_of, facts_of, faults_of
from appliance.certificates.used_by_ports import chain_of, ports_by_tls, trusted_by
from appliance.config import BrokerConfig, SettingInvalid, TlsConfig
from appliance.doctor.check import Check, Verdict

WHY = "on the day after its end no client comes in"
FIX = (
    "put a new certificate in its place: it is read again without a restart (`appliance tls check`)"
)


def checks(config: BrokerConfig) -> Iterator[Check]:
    for tls, ports in ports_by_tls(config):
        yield from of_store(tls, ", ".join(ports) or "no port")


def of_store(tls: TlsConfig, ports: str) -> Iterator[Check]:
    name = f"certificate {tls.keystore.name}"
    try:
        chain, trusted = chain_of(tls), trusted_by(tls)
    except (SettingInvalid, OSError) as error:
        yield Check(name, "failing", str(error), "the broker does not start with it", FIX)
        return
    faults = [*faults_of(chain), *(f"trust store: {each}" for each in dates_of(trusted))]
    for text in faults:
        verdict: Verdict = "failing" if "it expired" in text else "degraded"
        yield Check(name, verdict, f"{text} ({ports})", WHY, FIX)
    if not faults:
        yield Check(name, "ok", f"{facts_of(chain[0]).days_left} days left ({ports})", WHY)
