"""Who gets alerts: a mail server (aiosmtpd) and a webhook, on loopback, as a test wants them."""

from __future__ import annotations

import ssl
import threading
from email import message_from_bytes, policy
from email.message import EmailMessage
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import AuthResult, Envelope, LoginPassword

from loadtest.ports import lasting_port


def free_port() -> int:
    """For who listens later: until then the kernel gives it to nobody."""
    return lasting_port()


class Mailbox:
    """What a mail server was given. `answer` is what it says to the next mails."""

    def __init__(self) -> None:
        self.answer = "250 taken"
        self.refused = ""  # a recipient
        self.mails: list[EmailMessage] = []
        self.names: list[bytes] = []  # that logged in

    async def handle_RCPT(
        self, server: Any, session: Any, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        if address == self.refused:
            return "550 there is no such person"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server: Any, session: Any, envelope: Envelope) -> str:
        if self.answer.startswith("250"):
            assert isinstance(envelope.content, bytes)
            found = message_from_bytes(envelope.content, policy=policy.default)
            assert isinstance(found, EmailMessage)
            self.mails.append(found)
        return self.answer


class MailServer(Controller):
    """`with MailServer(...) as server`. With a password only who logs in is heard."""

    def __init__(
        self,
        mailbox: Mailbox,
        port: int = 0,
        tls: ssl.SSLContext | None = None,
        login: tuple[str, str] | None = None,
    ) -> None:
        self.mailbox = mailbox
        self._login = login
        found: dict[str, Any] = {}
        if tls is not None:
            found = {"tls_context": tls, "require_starttls": True}
        if login is not None:
            found |= {"authenticator": self._knows, "auth_required": True}
        super().__init__(mailbox, hostname="127.0.0.1", port=port or free_port(), **found)

    def _knows(self, server: Any, session: Any, envelope: Any, how: str, given: Any) -> AuthResult:
        assert isinstance(given, LoginPassword)
        assert self._login is not None
        is_known = (given.login.decode(), given.password.decode()) == self._login
        if is_known:
            self.mailbox.names.append(given.login)
        return AuthResult(success=is_known, handled=is_known)

    def __enter__(self) -> MailServer:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        self.stop()


class Hook(ThreadingHTTPServer):
    """A webhook: keeps what was posted, and answers `status`. Before `goes_on` it does not."""

    daemon_threads = True

    def __init__(self, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), Posted)
        self.status = 200
        self.location = ""
        self.got: list[tuple[str, dict[str, str], bytes]] = []  # path, headers, body
        self.goes_on = threading.Event()
        self.goes_on.set()
        self._thread = threading.Thread(target=self.serve_forever, args=(0.02,))

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/hook"

    def __enter__(self) -> Hook:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.goes_on.set()
        self.shutdown()
        self._thread.join()
        self.server_close()


class Posted(BaseHTTPRequestHandler):
    server: Hook

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.got.append((self.path, dict(self.headers), body))
        self.server.goes_on.wait()
        try:
            self.send_response(self.server.status)
            if self.server.location:
                self.send_header("Location", self.server.location)
            self.send_header("Content-Length", "0")
            self.end_headers()
        except ConnectionError:
            self.close_connection = True  # it did not wait

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """A test reads `got`."""
