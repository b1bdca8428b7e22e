"""Certificates for tests of TLS: an authority of its own, and what it signs, by `openssl`.

    authority = Authority(tmp_path)
    server = authority.issue("server")            # for localhost and 127.0.0.1
    alice = authority.issue("alice", hosts=())    # a client

Keys are of P-256, because RSA keys take long to make.
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

LOOPBACK = ("localhost", "127.0.0.1")
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
                    str(self.trust), "-days", "30", "-subj", f"/CN={name}")

    def issue(self, name: str, hosts: Sequence[str] = LOOPBACK, subject: str = "",
              password: str = "") -> Certificate:
        """A certificate for these hosts, whose subject is `/CN=name` unless it is given."""
        made = Certificate(self.folder / f"{name}.pem", self.folder / f"{name}.key",
                           self.folder / f"{name}.both.pem", password)
        closed = ("-passout", f"pass:{password}") if password else ("-nodes",)
        names = ("-addext", f"subjectAltName={','.join(map(alternative, hosts))}") if hosts else ()
        openssl("req", "-x509", *NEW_KEY, *closed, "-keyout", str(made.key), "-out",
                str(made.certificate), "-CA", str(self.trust), "-CAkey", str(self._key), "-days",
                "30", "-subj", subject or f"/CN={name}", *names, "-addext",
                "basicConstraints=critical,CA:FALSE", "-addext",
                "extendedKeyUsage=serverAuth,clientAuth")
        made.both.write_bytes(made.key.read_bytes() + made.certificate.read_bytes())
        return made


def alternative(host: str) -> str:
    is_address = host.replace(".", "").isdecimal() or ":" in host
    return f"{'IP' if is_address else 'DNS'}:{host}"


def openssl(*words: str) -> str:
    done = subprocess.run(["openssl", *words], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, f"openssl {' '.join(words)}: {done.stderr}"
    return done.stdout
