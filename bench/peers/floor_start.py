"""The least of a start: Python, and the web server of the console with an open port."""

from __future__ import annotations

import asyncio

from aiohttp import web


async def serve() -> None:
    runner = web.AppRunner(web.Application())
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    print("ready", flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(serve())
