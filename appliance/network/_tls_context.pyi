from collections.abc import Sequence
from typing import NamedTuple, final

from typing_extensions import disjoint_base

class Certificate(NamedTuple):
    subject: bytes
    not_after_s: int

class Store(NamedTuple):
    content: bytes
    is_pkcs12: bool
    password: bytes
    key: bytes
    place: str

class Rules(NamedTuple):
    name: bytes
    client_auth: str
    least: str
    most: str
    ciphers: bytes
    suites: bytes

@final
class Content: ...

@disjoint_base
class TlsContext:
    def __new__(cls, is_login: bool) -> TlsContext: ...
    def use(
        self, rules: Rules, own: Store, trust: Sequence[Store]
    ) -> tuple[list[Certificate], list[Certificate]]: ...
    def use_as_client(
        self, rules: Rules, own: Store, trust: Sequence[Store]
    ) -> tuple[list[Certificate], list[Certificate]]: ...

def openssl_version() -> int: ...
def reason_of(code: int, verified: int) -> str: ...
