"""Encryption of a target: AES-256-GCM with the key of a file, for every file but the lock.

    sealed   "ABK1" | nonce, 12 bytes | ciphertext and tag; the file's name is authenticated, too

Names of objects are checksums of their content. With a key they are keyed ones (HMAC-SHA-256), or
whoever reads the target could tell whether it has a file that he knows.
"""

from __future__ import annotations

import hashlib
import hmac
import os
from pathlib import Path
from typing import Protocol

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from appliance.backup.errors import KeyWrong, ObjectDamaged

MAGIC = b"ABK1"
NONCE_SIZE = 12
KEY_SIZE = 32


class Cipher(Protocol):
    def name(self, data: bytes) -> str: ...

    def seal(self, name: str, data: bytes) -> bytes: ...

    def open(self, name: str, data: bytes) -> bytes:
        """ObjectDamaged, KeyWrong."""
        ...


class Plain:
    def name(self, data: bytes) -> str:
        return hashlib.sha256(data).hexdigest()

    def seal(self, name: str, data: bytes) -> bytes:
        return data

    def open(self, name: str, data: bytes) -> bytes:
        if data.startswith(MAGIC):
            raise KeyWrong(f"{name}: it is encrypted: give the key with --key-file")
        return data


class Aes:
    def __init__(self, key: bytes) -> None:
        self._naming = hashlib.sha256(b"names of a backup" + key).digest()
        self._aes = AESGCM(key)

    def name(self, data: bytes) -> str:
        return hmac.new(self._naming, data, hashlib.sha256).hexdigest()

    def seal(self, name: str, data: bytes) -> bytes:
        nonce = os.urandom(NONCE_SIZE)
        return MAGIC + nonce + self._aes.encrypt(nonce, data, name.encode())

    def open(self, name: str, data: bytes) -> bytes:
        at = len(MAGIC) + NONCE_SIZE
        if not data.startswith(MAGIC):
            raise ObjectDamaged(f"{name}: it is not encrypted, or its begin is damaged")
        try:
            return self._aes.decrypt(data[len(MAGIC) : at], data[at:], name.encode())
        except InvalidTag:
            raise ObjectDamaged(f"{name}: it is damaged, or the key is another") from None


def cipher_of(key_file: Path | None) -> Cipher:
    return Plain() if key_file is None else Aes(key_in(key_file))


def key_in(path: Path) -> bytes:
    """32 bytes, as they are or in 64 hexadecimal digits. Error messages do not show them."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise KeyWrong(f"{path}: {error.strerror}") from error
    if len(data) == KEY_SIZE:
        return data
    try:
        found = bytes.fromhex(data.decode("ascii").strip())
    except ValueError:
        found = b""
    if len(found) != KEY_SIZE:
        raise KeyWrong(
            f"{path}: got {len(data)} bytes, wanted a key of {KEY_SIZE} bytes or {2 * KEY_SIZE} "
            "hexadecimal digits; `openssl rand -hex 32` makes one"
        )
    return found
