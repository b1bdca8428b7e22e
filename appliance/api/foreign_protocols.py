"""Other protocols on Kafka's port, told by their first four bytes, where a frame has its length."""

from __future__ import annotations

TLS_HANDSHAKES = range(0x16030000, 0x16030500)
BEGINNINGS = {
    b"GET ": "an HTTP request",
    b"POST": "an HTTP request",
    b"PUT ": "an HTTP request",
    b"HEAD": "an HTTP request",
    b"OPTI": "an HTTP request",
    b"CONN": "an HTTP request",
    b"PRI ": "an HTTP/2 request",
    b"SSH-": "an SSH banner",
}


def protocol_of(size: int) -> str | None:
    if size in TLS_HANDSHAKES:
        return "a TLS handshake"
    return BEGINNINGS.get(size.to_bytes(4, "big")) if size > 0 else None
