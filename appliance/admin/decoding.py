"""Keys and values that need a schema: the interface of a decoder, and the limits of a page."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, TypeVar

from appliance.schemas.schema_limits import DecodeFailed

if TYPE_CHECKING:
    from appliance.admin.registry_look import RegistryLook

DATA_BYTES_MAX = 256 << 10  # of one key or value: decoding may take a hundred times that in memory
PAGE_SECONDS_MAX = 2.0  # for a whole page; the rest is shown undecoded

Result = TypeVar("Result")


class Decoder(Protocol):
    @property
    def form(self) -> str: ...
    @property
    def about(self) -> str: ...  # the name of the decoded type

    def decode(self, data: bytes) -> tuple[str, int | None]:
        """As JSON, with the number of the schema if the data has one."""


class Decoders:
    """The decoders for one page of messages; any may be None. Counts the used time."""

    def __init__(
        self, key: Decoder | None = None, value: Decoder | None = None,
        registry: RegistryLook | None = None,
    ) -> None:  # fmt: skip
        self.key, self.value, self.registry = key, value, registry
        self._spent = 0.0

    def decoded(self, decoder: Decoder, data: bytes) -> tuple[str, int | None]:
        return self.bounded(decoder.decode, data)

    def bounded(self, decode: Callable[[bytes], Result], data: bytes) -> Result:
        if len(data) > DATA_BYTES_MAX:
            raise DecodeFailed(f"got {len(data)} bytes, at most {DATA_BYTES_MAX} are decoded")
        if self._spent > PAGE_SECONDS_MAX:
            raise DecodeFailed(f"left out: this page took {self._spent:.1f} s already")
        began = time.monotonic()
        try:
            return decode(data)
        finally:
            self._spent += time.monotonic() - began
