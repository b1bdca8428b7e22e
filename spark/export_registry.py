"""Values whose framing names a schema of a registry, as JSON for columns: `--schema registry`.

A registry that is away, refuses, or answers what is no answer of a registry ends the task, and so
the run: it is tried again, and no record becomes a dead letter for it. A record is one if the
registry does not know its schema, or if its bytes do not fit.
"""

from __future__ import annotations

import asyncio
import base64
import ssl
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from appliance.process import secret_file
from appliance_spark import export_json
from appliance_spark.endpoint import pause
from appliance_spark.export_layout import ExportFailed

if TYPE_CHECKING:
    from appliance.schemas.registry_decoders import SchemaDecoder
    from appliance.schemas.registry_ids import SchemaKey

TIMEOUT_MS = 10_000  # for a schema and all that it refers to; a run can wait longer than a page
TRIES = 3  # of a registry that is away, by a task; then Spark tries the task again
KEPT_MAX = 1000  # schemas in a worker; one that is named again later is asked for again
TYPES = "/schemas/types"  # every registry with this API tells them, also one without a schema
WANTED = "--schema registry wants the address of the registry: --registry URL, or in " \
    "APPLIANCE_EXPORT_REGISTRY"

Headers = list[tuple[str, "bytes | None"]]


@dataclass(frozen=True)
class Place:
    """Where workers ask; they have no files of the driver's."""

    url: str
    user: str = ""
    password: str = field(default="", repr=False)
    ca: str = ""  # PEM of the authorities that are trusted; "": the system's


def place_of(
    url: str | None, user: str | None, password_file: Path | None, ca_file: Path | None
) -> Place | None:
    if url is None:
        return None
    password = ""
    if user:
        if password_file is None:
            raise ExportFailed("--registry-user wants --registry-password-file")
        try:
            password = secret_file.read("--registry-password-file", password_file)
        except secret_file.SecretUnusable as error:
            raise ExportFailed(str(error)) from error
    return Place(url, user or "", password, ca_file.read_text() if ca_file else "")


@cache  # of a worker, for all its tasks
def schemas_of(place: Place) -> Schemas:
    return Schemas(place)


class Schemas:
    def __init__(self, place: Place) -> None:
        try:
            import aiohttp  # noqa: F401
            import fastavro  # noqa: F401
            from google.protobuf import descriptor_pb2  # noqa: F401
        except ImportError as error:
            raise ExportFailed("--schema registry wants aiohttp, fastavro and protobuf, also of "
                               f"each worker: {error}") from error
        from appliance.config import SchemaRegistryConfig
        from appliance.schemas.registry_client import RegistryClient

        class Client(RegistryClient):
            def _secrets(self) -> tuple[dict[str, str], ssl.SSLContext | bool]:
                both = base64.b64encode(f"{place.user}:{place.password}".encode()).decode()
                login = {"Authorization": f"Basic {both}"} if place.user else {}
                return login, ssl.create_default_context(cadata=place.ca) if place.ca else True

            async def types(self) -> Any:
                async with self._session() as session:
                    return await self.json_at(session, TYPES)

        self._client = Client(SchemaRegistryConfig(url=place.url, timeout_ms=TIMEOUT_MS))
        self._kept: OrderedDict[SchemaKey, SchemaDecoder | str] = OrderedDict()

    def load(self, value: bytes, headers: Headers) -> dict[str, Any]:
        """Raises ValueError, with a reason for the dead letter."""
        from appliance.schemas.registry_ids import schema_named
        from appliance.schemas.schema_limits import DecodeFailed

        named = schema_named("value", value, headers)
        if named is None:
            raise ValueError(f"names no schema of a registry: it begins with {value[:5].hex()}")
        decoder = self._decoder(named.key)
        if isinstance(decoder, str):
            raise ValueError(f"schema {named.key.name}: {decoder}")
        try:
            text = decoder.row(named).text
        except DecodeFailed as error:
            raise ValueError(f"schema {named.key.name}: {error}") from error
        return export_json.load(text.encode())

    def _decoder(self, key: SchemaKey) -> SchemaDecoder | str:
        """Or why there is none."""
        if key not in self._kept:
            self._kept[key] = self._asked(key)
            if len(self._kept) > KEPT_MAX:
                self._kept.popitem(last=False)
        return self._kept[key]

    def _asked(self, key: SchemaKey) -> SchemaDecoder | str:
        from appliance.schemas.registry_client import AnswerUnusable, RegistryAway, SchemaUnusable
        from appliance.schemas.registry_decoders import decoder_of
        from appliance.schemas.schema_limits import SchemaInvalid

        for attempt in range(TRIES):
            try:
                return decoder_of(asyncio.run(self._found(key)))
            except (RegistryAway, AnswerUnusable) as error:
                if attempt + 1 == TRIES:
                    raise ExportFailed(
                        f"the schema registry cannot be asked, so nothing is exported: {error}. "
                        "The next run tries it again") from error
                pause(attempt)
            except (SchemaUnusable, SchemaInvalid) as error:
                return str(error)
        raise AssertionError("not reached")

    async def _found(self, key: SchemaKey) -> Any:
        from appliance.schemas.registry_client import SchemaUnknown

        try:
            return await self._client.found(key)
        except SchemaUnknown:
            await self._check()
            raise

    async def _check(self) -> None:
        """Who has no schema must be a registry: at a wrong path all would be unknown."""
        from appliance.schemas.registry_client import AnswerUnusable, SchemaUnusable

        try:
            found = await self._client.types()
        except SchemaUnusable as error:
            raise AnswerUnusable(f"is it a registry? {error}") from error
        if not isinstance(found, list):
            raise AnswerUnusable(f"{self._client.place} is no registry: {TYPES} is no list")


def loader(place: Place | None) -> Callable[[Any], dict[str, Any]]:
    """Of values with their headers."""
    if place is None:
        raise ExportFailed(WANTED)
    schemas = schemas_of(place)
    return lambda item: schemas.load(*item)


def items(batch: Any) -> list[Any]:
    """Values with their headers; None where the value is null."""
    return [
        None if value is None else (value, [(each["key"], each["value"]) for each in headers or ()])
        for value, headers in zip(batch.column("value").to_pylist(),
                                  batch.column("headers").to_pylist(), strict=True)
    ]
