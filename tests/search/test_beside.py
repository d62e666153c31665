"""Work beside others, step by step."""

from __future__ import annotations

import threading
from collections.abc import Generator

from memory.search.beside import Beside


class Counted:
    """Steps that wait to be let go on, and the end of each piece of work."""

    def __init__(self, steps: int) -> None:
        self.done = 0
        self.ended = 0
        self.stepped = threading.Semaphore(0)
        self._steps = steps

    def work(self) -> Generator[None]:
        try:
            for _ in range(self._steps):
                self.done += 1
                self.stepped.release()
                yield
        finally:
            self.ended += 1


def test_work_goes_on_to_its_end_and_begins_again_when_asked() -> None:
    counted = Counted(3)
    beside = Beside("test", counted.work)
    for round_ in (1, 2):
        beside.start()
        beside.wait()
        assert (counted.done, counted.ended) == (3 * round_, round_)


def test_it_is_stopped_between_two_steps_for_good_and_lets_go_of_what_it_holds() -> None:
    counted = Counted(10**9)
    beside = Beside("test", counted.work)
    beside.start()
    counted.stepped.acquire()
    beside.stop()
    assert counted.ended == 1
    done = counted.done
    beside.start()
    beside.wait()
    assert counted.done == done


def test_of_several_who_start_it_at_once_one_does() -> None:
    for _ in range(50):
        counted = Counted(10**9)
        beside = Beside("test", counted.work)
        ready = threading.Barrier(4)

        def start(beside: Beside = beside, ready: threading.Barrier = ready) -> None:
            ready.wait()
            beside.start()

        starting = [threading.Thread(target=start) for _ in range(4)]
        for one in starting:
            one.start()
        for one in starting:
            one.join()
        counted.stepped.acquire()
        beside.stop()
        assert counted.ended == 1
