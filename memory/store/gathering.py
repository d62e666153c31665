"""Decisions of several tasks, applied together: one short transaction for all that wait."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from memory.models import JUDGES, Decision, Embedded, Judge
from memory.store.applying import Anyway, Application, Applied, Condition, Conflict, count
from memory.store.pace import Pace, Uncollected
from memory.store.store import MemoryStore
from memory.threads import in_thread

_MOST_HELD_S = 0.03
"""From then on no further decision joins a transaction: nobody waits for long."""


_Answer = Applied | Conflict | Exception


@dataclass(frozen=True)
class _Waiting:
    decision: Decision
    condition: Condition
    run: str | None
    done: asyncio.Future[Applied | Conflict]


class Gathering:
    """While one transaction is under way, what comes waits for the next one. Of one event loop."""

    def __init__(
        self,
        store: MemoryStore,
        most_held_s: float = _MOST_HELD_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`clock` is in seconds and never goes back."""
        self._store = store
        self._most_held_s = most_held_s
        self._clock = clock
        self._queue: list[_Waiting] = []
        self._turn = asyncio.Lock()

    async def apply(
        self, decision: Decision, condition: Condition, run: str | None
    ) -> Applied | Conflict:
        """As the store's `apply`, in one transaction with others that wait; each by itself counts.

        Raises: LedgerError: then none of the transaction was done.
        """
        done: asyncio.Future[Applied | Conflict] = asyncio.get_running_loop().create_future()
        self._queue.append(_Waiting(decision, condition, run, done))
        try:
            while not done.done():
                async with self._turn:
                    if not done.done():
                        await self._apply_some()
        except BaseException:  # a cancelled asker too: what has not begun is not done any more
            done.cancel()
            raise
        return done.result()

    async def _apply_some(self) -> None:
        self._queue = [one for one in self._queue if not one.done.done()]
        some = list(self._queue)
        answers: list[_Answer] = []

        def work() -> None:
            try:
                answers.extend(self._in_one_transaction(some))
            except Exception as exc:  # each of them has failed, and each asker is told
                answers.extend([exc] * len(some))

        try:
            await in_thread(work)
        finally:  # the thread has ended: whoever is cancelled leaves none of the others waiting
            for one, answer in zip(some, answers, strict=False):
                _tell(one.done, answer)

    def _in_one_transaction(self, some: Sequence[_Waiting]) -> list[_Answer]:
        """The answers of as many of them as the time allows, one at least."""
        wanted = [self._wanted(one) for one in some]
        answers: list[_Answer] = []
        with Uncollected() as garbage, self._store.ledger.writing() as writer:
            garbage.leave()
            until = self._clock() + self._most_held_s
            for one in wanted:
                if isinstance(one, Application):
                    answers.append(self._store.applier.apply(writer, one))
                else:
                    answers.append(one)
                if self._clock() >= until:
                    break
        done = zip((one.decision for one in some), answers, strict=False)
        count((told, answer) for told, answer in done if not isinstance(answer, Exception))
        return answers

    def _wanted(self, one: _Waiting) -> Application | Exception:
        """What is to be applied, with its vectors; what they fail at fails nobody else."""
        try:
            return self._store.applier.application(one.decision, one.condition, run=one.run)
        except Exception as exc:  # whatever it is, its asker is told
            return exc


def _tell(done: asyncio.Future[Applied | Conflict], answer: _Answer) -> None:
    if done.cancelled():
        return
    if isinstance(answer, Exception):
        done.set_exception(answer)
    else:
        done.set_result(answer)


def apply_all(
    store: MemoryStore,
    decided: Sequence[tuple[Embedded, Decision]],
    revision: int,
    run: str | None,
    bound_by: tuple[Judge, ...] = JUDGES,
    pace: Pace | None = None,
) -> list[Applied] | Conflict:
    """Do what was decided about new memories, in order, in one transaction.

    Nothing is done where anything was written since the revision, or where somebody whose word
    counts has told a text that is made from one that it is to stand for.
    """
    applier = store.applier
    todo = [applier.application(one, Anyway(), arrival, run) for arrival, one in decided]
    with (pace or Pace()).writing(store.ledger, len(decided)) as writer:
        if writer.revision() != revision:
            return Conflict("something was written meanwhile")
        if why := applier.told_apart(writer, [decision for _, decision in decided], bound_by):
            return Conflict(why)
        done = applier.apply_in_order(writer, todo)
    count(zip((decision for _, decision in decided), done, strict=True))
    return done
