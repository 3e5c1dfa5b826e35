"""Many small calls of one event loop, sent as one vector."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

from ._native import Session, Step
from .aio import wait


class Batch:
    """Steps that tasks ask for in the same turn of the event loop go in one vector.

    fsspec starts a task for each of many files. All of them get so far in one turn, and so they share round trips.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._waiting: list[tuple[Step, asyncio.Future[Any]]] = []
        self._tasks: set[asyncio.Task[None]] = set()

    async def do(self, step: Step) -> Any:
        """The result of a step, whose failure is no other's."""
        loop = asyncio.get_running_loop()
        if not self._waiting:
            loop.call_soon(self._send, loop)
        future = loop.create_future()
        self._waiting.append((step, future))
        return await future

    def _send(self, loop: asyncio.AbstractEventLoop) -> None:
        waiting, self._waiting = self._waiting, []
        task = loop.create_task(self._settle(waiting))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _settle(self, waiting: list[tuple[Step, asyncio.Future[Any]]]) -> None:
        try:
            results = await wait(self._session.execute_each([step for step, _ in waiting]))
        except Exception as error:
            results = [error] * len(waiting)
        for (_, future), result in zip(waiting, results):
            if future.done():
                continue
            if isinstance(result, Exception):
                future.set_exception(result)
            else:
                future.set_result(result)


class Budget:
    """How many bytes the tasks of one event loop may hold in memory together."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._held = 0
        self._freed = asyncio.Condition()

    @contextlib.asynccontextmanager
    async def hold(self, amount: int) -> AsyncIterator[None]:
        """Waits until there is room for as much; if it is more than all, until it is the only one."""
        async with self._freed:
            await self._freed.wait_for(lambda: self._held == 0 or self._held + amount <= self._limit)
            self._held += amount
        try:
            yield
        finally:
            async with self._freed:
                self._held -= amount
                self._freed.notify_all()
