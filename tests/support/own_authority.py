"""An authority of a test, and what it signed."""

from __future__ import annotations

import ssl
from datetime import datetime, timezone
from pathlib import Path

from appliance.certificates.authority import Signed, made_authority, made_certificate

NAMES = ("localhost", "127.0.0.1", "::1")


class TestAuthority:
    """`ca` is the file that clients trust."""

    __test__ = False

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.ca = folder, folder / "ca.pem"
        self.authority = made_authority("test")
        self.ca.write_bytes(self.authority.certificate_pem)

    def signed(self, *names: str, days: int = 90) -> Signed:
        """Fewer days than none: it has expired."""
        now = datetime.now(timezone.utc)
        return made_certificate(self.authority, names or NAMES, days, now)

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
        return ssl.create_default_context(cafile=str(self.ca))
