"""Certificates for tests of TLS: an authority of its own, and what it signs.

    authority = Authority(tmp_path)
    store = authority.keystore()                  # of a broker, for localhost
    server = authority.issue("server")            # the same in files of their own
    alice = authority.issue("alice", hosts=())    # a client

`issue` is by `openssl`, which writes any subject; `signed` and `keystore` are by what makes the
broker's own, and can be of any age. Keys are of P-256 unless they are asked for:
RSA keys take long to make.
"""

from __future__ import annotations

import ssl
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import cached_property
from pathlib import Path

from appliance.certificates.authority import Signed, authority_of, made_certificate

LOOPBACK = ("localhost", "127.0.0.1", "::1")
RSA_KEY = ("-newkey", "rsa:2048")
NEW_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1")


@dataclass(frozen=True)
class Certificate:
    """Files in PEM. `both` has the key in front of the certificate, as Kafka wants it."""

    certificate: Path
    key: Path
    both: Path
    password: str = ""  # of the key; empty: it is not encrypted


class Authority:
    """Signs certificates. `trust` is the file that clients and servers trust."""

    def __init__(self, folder: Path, name: str = "Authority of tests") -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.trust, self._key = folder / "ca.pem", folder / "ca.key"
        if not self.trust.exists():
            openssl("req", "-x509", *NEW_KEY, "-nodes", "-keyout", str(self._key), "-out",
                    str(self.trust), "-days", "3650", "-subj", f"/CN={name}")

    def issue(self, name: str, hosts: Sequence[str] = LOOPBACK, subject: str = "",
              password: str = "", key: Sequence[str] = NEW_KEY) -> Certificate:
        """A certificate for these hosts, whose subject is `/CN=name` unless it is given."""
        made = Certificate(self.folder / f"{name}.pem", self.folder / f"{name}.key",
                           self.folder / f"{name}.both.pem", password)
        closed = ("-passout", f"pass:{password}") if password else ("-nodes",)
        names = ("-addext", f"subjectAltName={','.join(map(alternative, hosts))}") if hosts else ()
        openssl("req", "-x509", *key, *closed, "-keyout", str(made.key), "-out",
                str(made.certificate), "-CA", str(self.trust), "-CAkey", str(self._key), "-days",
                "30", "-subj", subject or f"/CN={name}", *names, "-addext",
                "basicConstraints=critical,CA:FALSE", "-addext",
                "extendedKeyUsage=serverAuth,clientAuth")
        made.both.write_bytes(made.key.read_bytes() + made.certificate.read_bytes())
        return made

    @cached_property
    def itself(self) -> Signed:
        return authority_of(self.trust.read_bytes(), self._key.read_bytes())

    def signed(self, *names: str, days: int = 90) -> Signed:
        """Fewer days than none: it has expired."""
        return made_certificate(self.itself, names or LOOPBACK, days, datetime.now(timezone.utc))

    def keystore(self, *names: str, days: int = 90, file: str = "server.pem") -> Path:
        made, path = self.signed(*names, days=days), self.folder / file
        new = path.with_suffix(".new")
        new.write_bytes(made.key_pem + made.certificate_pem)
        return new.replace(path)

    @property
    def settings(self) -> dict[str, str]:
        """Of a broker whose ports of HTTP speak TLS on loopback, too."""
        return {"ssl.keystore.location": str(self.keystore()), "admin.tls": "on"}

    def trusted(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=str(self.trust))


def alternative(host: str) -> str:
    is_address = host.replace(".", "").isdecimal() or ":" in host
    return f"{'IP' if is_address else 'DNS'}:{host}"


def openssl(*words: str) -> str:
    done = subprocess.run(["openssl", *words], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, f"openssl {' '.join(words)}: {done.stderr}"
    return done.stdout
