"""Schemas of a registry by their ids: kept, and asked for when a page has records that name them.

A schema never changes behind its id, so what is known stays until there is too much of it. A page
waits a second at most; the asking goes on, and the next look has what it found. A registry that is
away is not asked again for ten seconds, and pages say so at once.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

from appliance.admin.registry_look import Kept
from appliance.config import SchemaRegistryConfig
from appliance.process import event_log
from appliance.schemas.registry_client import (
    RegistryAway,
    RegistryClient,
    SchemaUnknown,
    SchemaUnusable,
)
from appliance.schemas.registry_decoders import decoder_of
from appliance.schemas.registry_ids import SchemaKey
from appliance.schemas.schema_limits import SchemaInvalid

log = event_log.named("schema registry")

WAIT_SECONDS = 1.0  # of a page; who cannot look again may wait longer
WAIT_SECONDS_MAX = 30  # less than clients wait for an answer
AGAIN_SECONDS = 10.0  # from a failure of the registry to the next attempt
UNUSABLE_SECONDS = 30.0  # that a schema is said to be missing or bad before it is asked for again
KEPT_MAX = 500  # schemas, and
KEPT_CHARACTERS_MAX = 4 << 20  # of their text, of which each may take 60 bytes of memory
ASKED_MAX = 20  # schemas that one page asks for
ASKING_MAX = 4  # at a time, for all pages, and
WAITING_MAX = 100  # with those that wait: records may name ever new ids, and a registry be slow
PROBLEM_MAX = 500  # characters: names in it are of others, and each record of a page has it


class Registry:
    def __init__(self, config: SchemaRegistryConfig) -> None:
        self._client = RegistryClient(config)
        self._kept: OrderedDict[SchemaKey, Kept] = OrderedDict()
        self._asking: dict[SchemaKey, asyncio.Task[None]] = {}
        self._turns = asyncio.Semaphore(ASKING_MAX)
        self._away = ""  # why, and
        self._failed_at = 0.0
        self._builder = ThreadPoolExecutor(1, "schemas")  # a slow schema delays no other thread

    @property
    def place(self) -> str:
        return self._client.place

    @property
    def problem(self) -> str | None:
        """Why it cannot be asked just now."""
        if not self._is_away:
            return None
        ago = time.monotonic() - self._failed_at
        return f"{self._away} (tried {ago:.0f} s ago)"

    @property
    def _is_away(self) -> bool:
        return bool(self._away) and time.monotonic() < self._failed_at + AGAIN_SECONDS

    async def known(
        self, keys: Iterable[SchemaKey], wait_s: float = WAIT_SECONDS
    ) -> dict[SchemaKey, Kept]:
        """All of them, each with a schema or why there is none."""
        wanted = list(dict.fromkeys(keys))
        tasks = [] if self._is_away else self._tasks(wanted)
        if tasks:
            await asyncio.wait(tasks, timeout=wait_s)
        return {each: self._told(each, wait_s) for each in wanted}

    def _tasks(self, wanted: list[SchemaKey]) -> list[asyncio.Task[None]]:
        """Of one page."""
        due = [each for each in wanted if self._is_due(each)][:ASKED_MAX]
        room = max(0, WAITING_MAX - len(self._asking))
        new = [each for each in due if each not in self._asking][:room]
        return [self._task(each) for each in due if each in self._asking or each in new]

    def _is_due(self, key: SchemaKey) -> bool:
        kept = self._kept.get(key)
        return kept is None or (kept.until is not None and time.monotonic() >= kept.until)

    def _told(self, key: SchemaKey, wait_s: float) -> Kept:
        if key in self._kept:
            self._kept.move_to_end(key)
            return self._kept[key]
        if self.problem is not None:
            return Kept(problem=f"the registry is away: {self.problem}")
        if key in self._asking:
            return Kept(problem=f"{self.place} has not answered in {wait_s:g} s; a later look "
                                "may have it")  # fmt: skip
        return Kept(problem=f"not asked for: a page asks for {ASKED_MAX} schemas, all together for "
                            f"{WAITING_MAX}; a later look may have it")  # fmt: skip

    def _task(self, key: SchemaKey) -> asyncio.Task[None]:
        if key not in self._asking:
            task = asyncio.create_task(self._ask(key))
            self._asking[key] = task
            task.add_done_callback(lambda _: self._asking.pop(key, None))
        return self._asking[key]

    async def _ask(self, key: SchemaKey) -> None:
        async with self._turns:
            if self._is_away:  # it was found out meanwhile
                return
            try:
                self._keep(key, await self._found(key))
                self._away = ""
            except RegistryAway as error:
                if not self._away:
                    log.warning("the schema registry cannot be asked", error=error)
                self._away, self._failed_at = str(error)[:PROBLEM_MAX], time.monotonic()
            except (SchemaUnusable, SchemaInvalid) as error:
                until = time.monotonic() + UNUSABLE_SECONDS
                is_unknown, problem = isinstance(error, SchemaUnknown), str(error)[:PROBLEM_MAX]
                self._keep(key, Kept(problem=problem, is_unknown=is_unknown, until=until))
                self._away = ""

    async def _found(self, key: SchemaKey) -> Kept:
        found = await self._client.found(key)
        loop = asyncio.get_running_loop()
        decoder = await loop.run_in_executor(self._builder, decoder_of, found)
        return Kept(decoder, subjects=found.subjects, size=found.size)

    def _keep(self, key: SchemaKey, kept: Kept) -> None:
        self._kept[key] = kept
        self._kept.move_to_end(key)
        while (
            len(self._kept) > KEPT_MAX
            or sum(each.size for each in self._kept.values()) > KEPT_CHARACTERS_MAX
        ):
            self._kept.popitem(last=False)

    async def close(self) -> None:
        for task in list(self._asking.values()):
            task.cancel()
        await asyncio.gather(*self._asking.values(), return_exceptions=True)
        self._builder.shutdown(wait=False, cancel_futures=True)
        self._client.close()
