"""Logs in by SCRAM as fast as a process can, and says how often it did.

    python -m tests.hostile.login_flood HOST PORT SECONDS right|wrong

With the right password each connection is closed after its login. With wrong proofs, for ever
other names and from ever other addresses, it is left to wait for its refusal.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections import deque

from appliance.protocol.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from appliance.protocol.messages.sasl_handshake import SaslHandshakeRequest
from tests.support.doors import PASSWORD, SASL_AUTHENTICATE, SASL_HANDSHAKE
from tests.support.scram_client import ScramClient
from tests.support.wire_client import WireClient, frame_of, with_length

MECHANISM = "SCRAM-SHA-256"
THREADS = 6
HELD = 50  # connections of a thread that wait to be refused
HANDSHAKE = with_length(frame_of(SaslHandshakeRequest(MECHANISM), SASL_HANDSHAKE, 1))


def message(data: bytes) -> bytes:
    return with_length(frame_of(SaslAuthenticateRequest(data), SASL_AUTHENTICATE, 2))


class Flood:
    def __init__(self, address: tuple[str, int], is_right: bool, end: float) -> None:
        self._address = address
        self._is_right = is_right
        self._end = end
        self.logins = 0
        self.closed = 0

    def run(self, number: int) -> None:
        held, done = deque[WireClient](), 0
        while time.monotonic() < self._end:
            done += 1
            source = f"127.{20 + number}.{done // 250 % 250}.{1 + done % 250}"
            try:
                client = WireClient(self._address, 5, source)
            except OSError:
                self.closed += 1
                continue
            held.append(client)
            with contextlib.suppress(OSError, EOFError):
                self._log_in(client, f"nobody-{number}-{done}")
            while len(held) > (0 if self._is_right else HELD):
                held.popleft().socket.close()
        for each in held:
            each.socket.close()

    def _log_in(self, client: WireClient, nobody: str) -> None:
        name, password = ("ann", PASSWORD) if self._is_right else (nobody, "")
        scram = ScramClient(MECHANISM, name, password)
        client.socket.sendall(HANDSHAKE + message(scram.first()))
        client.receive()
        answer = client.answer(SaslAuthenticateResponse, SASL_AUTHENTICATE, 2)
        if self._is_right:
            client.socket.sendall(message(scram.final(answer.auth_bytes)))
            answer = client.answer(SaslAuthenticateResponse, SASL_AUTHENTICATE, 2)
            assert answer.error_code == 0, answer
        else:
            nonce = answer.auth_bytes.partition(b",")[0]
            client.socket.sendall(message(b"c=biws," + nonce + b",p=" + b"A" * 43 + b"="))
        self.logins += 1


def main(host: str, port: str, seconds: str, kind: str) -> None:
    begin = time.monotonic()
    flood = Flood((host, int(port)), kind == "right", begin + float(seconds))
    threads = [threading.Thread(target=flood.run, args=(at,)) for at in range(THREADS)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    print(flood.logins, flood.closed, round(flood.logins / (time.monotonic() - begin)))


if __name__ == "__main__":
    main(*sys.argv[1:])
