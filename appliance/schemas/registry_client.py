"""Asks a schema registry over HTTP: Confluent's API, which Karapace and Apicurio have, too.

Whoever answers is not trusted: the size of an answer, the number, depth and size of what a schema
refers to, and the time for all of it are bounded; redirects are not followed, and nothing is
unpacked.
"""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from urllib.parse import quote, urlsplit

import aiohttp
from yarl import URL

from appliance.config import NO_FILE, SchemaRegistryConfig
from appliance.errors import ApplianceError
from appliance.process import secret_file
from appliance.schemas.registry_ids import IDS, SchemaKey
from appliance.schemas.registry_resolver import Resolver
from appliance.schemas.schema_limits import SCHEMA_BYTES_MAX

ANSWER_BYTES_MAX = 2 * SCHEMA_BYTES_MAX  # in JSON each quote of a schema takes two
REFERENCES_MAX = 64  # of a schema, and of those that it refers to
DEPTH_MAX = 16
SUBJECTS_MAX = 200  # under which a schema is known; more are not looked at
ERROR_MAX = 300
AWAY = (401, 407, 429, 502, 503, 504)  # are said of all that it has; others of one schema
AVRO = "AVRO"  # what a registry means that says nothing
HEADERS = {"Accept-Encoding": "identity", "User-Agent": "appliance"}
PASSWORD_FILE = "schema.registry.password.file"


class RegistryAway(ApplianceError):
    """The registry does not answer as one; the text says where and why."""

    kafka_code = -1


class SchemaUnusable(ApplianceError):
    """The registry is there, but not this schema, or what it gives for it cannot be used."""


class AnswerUnusable(SchemaUnusable):
    """It may answer otherwise later: it refused, was slow, or sent another page than its own."""


class SchemaUnknown(SchemaUnusable):
    """The registry has none of this id."""


class Reference(NamedTuple):
    name: str  # Avro: the type's; Protobuf: the path of the import
    text: str


class Subject(NamedTuple):
    name: str
    version: int


@dataclass
class Found:
    """A schema as the registry has it."""

    form: str  # AVRO, PROTOBUF, JSON
    text: str
    references: list[Reference] = field(default_factory=list)  # what others need comes first
    subjects: list[Subject] = field(default_factory=list)

    @property
    def size(self) -> int:
        return len(self.text) + sum(len(each.text) for each in self.references)


class RegistryClient:
    def __init__(self, config: SchemaRegistryConfig) -> None:
        self._config = config
        self._base = config.url.rstrip("/")
        # its own: those of the loop may not all wait for a file or a name server that hangs
        self._threads = ThreadPoolExecutor(2, "registry")

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    @property
    def place(self) -> str:
        found = urlsplit(self._base)
        return f"{found.scheme}://{found.netloc}{found.path}"

    async def found(self, key: SchemaKey) -> Found:
        """Raises RegistryAway and SchemaUnusable."""
        seconds, answered = self._config.timeout_ms / 1000, list[str]()
        try:
            return await asyncio.wait_for(self._found(key, answered), seconds)
        except asyncio.TimeoutError:
            if answered:  # the registry is there: others are not to be held up by this schema
                raise AnswerUnusable(
                    f"{self.place}: it and what it refers to took more than {seconds:g} s"
                ) from None
            raise RegistryAway(f"{self.place} did not answer in {seconds:g} s") from None
        except (aiohttp.ClientError, OSError) as error:
            told = f"{type(error).__name__}: {error}"[:ERROR_MAX]
            raise RegistryAway(f"{self.place}: {told}") from error
        except ValueError as error:  # a name in an answer that makes no address
            raise SchemaUnusable(f"{self.place}: {str(error)[:ERROR_MAX]}") from error

    async def _found(self, key: SchemaKey, answered: list[str]) -> Found:
        async with self._session() as session:
            path = f"/schemas/{key.kind}/{key.name}"
            asked = Asked(self, session, answered)
            found = await asked.schema(path)
            if key.kind == IDS:
                found.subjects = await asked.subjects(f"{path}/versions")
            return found

    @asynccontextmanager
    async def _session(self) -> AsyncIterator[aiohttp.ClientSession]:
        loop = asyncio.get_running_loop()
        login, trust = await loop.run_in_executor(self._threads, self._secrets)
        connector = aiohttp.TCPConnector(ssl=trust, resolver=Resolver(self._threads))
        async with aiohttp.ClientSession(
            connector=connector, cookie_jar=aiohttp.DummyCookieJar(), headers={**HEADERS, **login},
            auto_decompress=False, trust_env=False,
        ) as session:  # fmt: skip
            yield session

    def _secrets(self) -> tuple[dict[str, str], ssl.SSLContext | bool]:
        """Reads files, anew each time: a new password or certificate needs no restart."""
        config, login = self._config, dict[str, str]()
        trust: ssl.SSLContext | bool = True
        try:
            if config.user:
                password = secret_file.read(PASSWORD_FILE, config.password_file)
                both = base64.b64encode(f"{config.user}:{password}".encode()).decode()
                login = {"Authorization": f"Basic {both}"}
            if urlsplit(self._base).scheme == "https":
                own = None if config.ca_file == NO_FILE else str(config.ca_file)
                trust = ssl.create_default_context(cafile=own)
        except secret_file.SecretUnusable as error:
            raise RegistryAway(str(error)) from error
        except OSError as error:
            why = error.strerror or error
            raise RegistryAway(f"schema.registry.ca.file: {config.ca_file}: {why}") from error
        return login, trust

    async def json_at(self, session: aiohttp.ClientSession, path: str) -> Any:
        url = URL(self._base + path, encoded=True)
        async with session.get(url, allow_redirects=False) as answer:
            if answer.status == 404:
                raise SchemaUnknown(f"{self.place} has no {path} (404)")
            if answer.status != 200:
                failure = RegistryAway if answer.status in AWAY else AnswerUnusable
                raise failure(f"{self.place} answered {answer.status} for {path}")
            data = bytearray()
            async for piece in answer.content.iter_any():
                data += piece
                if len(data) > ANSWER_BYTES_MAX:
                    raise SchemaUnusable(f"{path}: more than {ANSWER_BYTES_MAX} bytes")
        try:
            return json.loads(data)
        except (ValueError, RecursionError) as error:
            told = str(error)[:ERROR_MAX]
            raise AnswerUnusable(f"{self.place} answered no JSON for {path}: {told}") from error


@dataclass
class Asked:
    """What is asked for one schema: it, and what it refers to, each once."""

    client: RegistryClient
    session: aiohttp.ClientSession
    answered: list[str]  # paths
    _seen: set[tuple[str, str, int]] = field(default_factory=set)
    _size: int = 0

    async def schema(self, path: str) -> Found:
        row = await self.client.json_at(self.session, path)
        self.answered.append(path)
        text, form = member(row, "schema", str, path), row.get("schemaType") or AVRO
        found = Found(str(form)[:40], self._counted(text, path))
        if form != "JSON":  # it is not validated by its schema, so that needs no others
            await self._add(found.references, row, path, 1)
        return found

    async def subjects(self, path: str) -> list[Subject]:
        """None where the registry does not tell: they are for people, decoding needs none."""
        try:
            rows = await self.client.json_at(self.session, path)
        except (SchemaUnusable, RegistryAway):
            return []
        if not isinstance(rows, list):
            return []
        return [
            Subject(as_text(each["subject"][:ERROR_MAX]), each["version"])
            for each in rows[:SUBJECTS_MAX]
            if isinstance(each, dict) and isinstance(each.get("subject"), str)
            and type(each.get("version")) is int
        ]  # fmt: skip

    async def _add(self, into: list[Reference], row: Any, path: str, depth: int) -> None:
        rows = row.get("references") or []
        if not isinstance(rows, list):
            raise SchemaUnusable(f"{path}: its references are no list")
        for each in rows:
            name, subject = member(each, "name", str, path), member(each, "subject", str, path)
            version = member(each, "version", int, path)
            if (name, subject, version) in self._seen:
                continue
            self._seen.add((name, subject, version))
            if depth > DEPTH_MAX:
                raise SchemaUnusable(f"references deeper than {DEPTH_MAX}")
            if len(self._seen) > REFERENCES_MAX:
                raise SchemaUnusable(f"more than {REFERENCES_MAX} references")
            if subject in (".", ".."):  # another path
                raise SchemaUnusable(f"{path}: got the subject {subject!r} in a reference")
            place = f"/subjects/{quote(subject, safe='')}/versions/{version}"
            found = await self.client.json_at(self.session, place)
            text = self._counted(member(found, "schema", str, place), place)
            await self._add(into, found, place, depth + 1)
            into.append(Reference(name, text))

    def _counted(self, text: str, path: str) -> str:
        self._size += len(text)
        if self._size > SCHEMA_BYTES_MAX:
            raise SchemaUnusable(
                f"{path}: with its references more than {SCHEMA_BYTES_MAX} characters"
            )
        return text


def as_text(word: str) -> str:
    """JSON may have half of a pair of surrogates, which nobody can print."""
    return word.encode("utf-8", "replace").decode()


def member(row: Any, name: str, of: type, path: str) -> Any:
    if not isinstance(row, dict) or type(row.get(name)) is not of:
        raise SchemaUnusable(f"{path}: the answer has no {name}")
    return row[name]
