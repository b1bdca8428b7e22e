"""Who asked is gone: the work goes on, and its errors are told to whom they concern."""

from __future__ import annotations

import asyncio
import gc
from pathlib import Path
from typing import Any

import pytest

import appliance
from appliance.errors import ApplianceError
from appliance.process.detached_tasks import outcome


def left_alone(error: Exception | None) -> tuple[bool, list[Any]]:
    """Whether it came to its end, and what Python reports."""
    ended: list[bool] = []
    reported: list[Any] = []

    async def work() -> None:
        await asyncio.sleep(0.001)
        ended.append(True)
        if error is not None:
            raise error

    async def ask() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda loop, found: reported.append(found))
        task = asyncio.create_task(work())
        asker = asyncio.create_task(outcome(task))
        await asyncio.sleep(0)
        asker.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asker
        await asyncio.wait([task])
        await asyncio.sleep(0)
        del task
        gc.collect()

    asyncio.run(ask())
    return ended == [True], reported


def test_what_was_wrong_with_a_question_is_nobodys_when_the_asker_is_gone(
    capfd: pytest.CaptureFixture[str],
) -> None:
    assert left_alone(None) == (True, [])
    assert left_alone(ApplianceError("no such topic")) == (True, [])
    assert "no such topic" not in capfd.readouterr().err


def test_a_fault_of_ours_is_told_with_its_trace(caplog: pytest.LogCaptureFixture) -> None:
    assert left_alone(ZeroDivisionError()) == (True, [])
    assert "ZeroDivisionError" in caplog.text


def test_nothing_else_is_shielded_but_what_waits_for_the_end() -> None:
    package = Path(appliance.__file__).parent
    found = {each.name for each in package.rglob("*.py") if "asyncio.shield" in each.read_text()}
    # The second awaits its thread before it raises, the third takes back what it had made, and of
    # the fourth each change has others that wait for it.
    assert found == {"detached_tasks.py", "reader_threads.py", "requests.py", "isr_writes.py"}


@pytest.mark.parametrize("error", [None, ApplianceError("no such topic"), ZeroDivisionError()])
def test_who_waits_hears_of_it(error: Exception | None) -> None:
    async def work() -> int:
        if error is not None:
            raise error
        return 7

    async def ask() -> int:
        return await outcome(asyncio.create_task(work()))

    if error is None:
        assert asyncio.run(ask()) == 7
    else:
        with pytest.raises(type(error)):
            asyncio.run(ask())
