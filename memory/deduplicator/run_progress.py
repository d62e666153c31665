"""Count how far a run over the whole store is, and tell the caller."""

from __future__ import annotations

import time
from collections.abc import Callable

from memory.models import Price, Progress, RunEvent, RunStage, Usage

OnEvent = Callable[[RunEvent], None]


class RunProgress:
    """Counts the steps, answers and costs of a run. Use it from one thread only.

    After each change, `on_event` is called with all counts. `on_progress` is called with the number
    of finished steps of the present stage and the number of all its steps.
    """

    def __init__(
        self,
        on_event: OnEvent | None = None,
        on_progress: Progress | None = None,
        price: Price | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._on_event = on_event
        self._on_progress = on_progress
        self._price = price
        self._clock = clock
        self._began_s = clock()
        self.event = RunEvent(stage="rules", done=0, total=0)

    def begin(self, stage: RunStage, total: int) -> None:
        self._began_s = self._clock()
        self._tell(stage=stage, done=0, total=total, left_s=None)

    def step(self, steps: int = 1) -> None:
        done, total = self.event.done + steps, self.event.total
        left_s = (self._clock() - self._began_s) / done * max(0, total - done)
        self._tell(done=done, left_s=round(left_s, 1))
        if self._on_progress is not None:
            self._on_progress(done, total)

    def spent(self, usage: Usage) -> None:
        spent = self.event.usage + usage
        self._tell(usage=spent, money=None if self._price is None else self._price.of(spent))

    def answered(self, *, groups: int = 0, readings: int = 0, retries: int = 0) -> None:
        """Count the groups that the model named, its second readings, and its second answers."""
        event = self.event
        self._tell(
            groups=event.groups + groups,
            readings=event.readings + readings,
            retries=event.retries + retries,
        )

    def _tell(self, **changes: object) -> None:
        self.event = self.event.model_copy(update=changes)
        if self._on_event is not None:
            self._on_event(self.event)
