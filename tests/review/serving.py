"""A review served on loopback, in a thread of the test."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from html import unescape

import httpx2

from memory.deduplicator import Judging, MemoryDeduplicator
from memory.ledger import DecisionRecord
from memory.models import PERSON, Rules
from memory.offline import OfflineModel
from memory.protocols import LanguageModel
from memory.review.answers import AnswerResult, Answers, Given
from memory.review.server import BrowserSession, ReviewServer
from memory.review.session import Review
from memory.runtime import Address, LoopThread, serve_until
from memory.store import Asker, MemoryStore

Fields = dict[str, str | list[str]]


@dataclass
class Browser:
    """A client that has the cookie and sends the headers of a browser."""

    client: httpx2.Client
    url: str

    def get(self, path: str) -> httpx2.Response:
        return self.client.get(self.url + path)

    def post(self, path: str, fields: Fields | None = None) -> httpx2.Response:
        return self.client.post(self.url + path, data=fields or {}, headers={"origin": self.url})

    def card(self) -> Fields:
        """Return the hidden fields of the next group."""
        return hidden(self.get("/").text)

    def say(self, answer: str, fields: Fields | None = None, **more: str | list[str]) -> int:
        """Answer this group, or the next one, and return the HTTP status."""
        answered = self.post("/answer", {**(fields or self.card()), "answer": answer, **more})
        return answered.history[0].status_code if answered.history else answered.status_code


@dataclass
class Served:
    """Where a review is served."""

    session: BrowserSession
    url: str

    @contextmanager
    def browser(self) -> Iterator[Browser]:
        with httpx2.Client(follow_redirects=True) as client:
            assert client.get(self.session.address()).status_code == 200
            yield Browser(client, self.url)


def hidden(page: str) -> Fields:
    """Return the hidden fields of the answer's form."""
    form = page.partition('id="answer"')[2].partition("</form>")[0]
    found: dict[str, list[str]] = {}
    for name, value in re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)">', form):
        found.setdefault(name, []).append(unescape(value))
    return dict(found)


@contextmanager
def served(
    store: MemoryStore,
    model: LanguageModel,
    follow_undo: Callable[[Sequence[DecisionRecord]], str] = lambda _: "",
    *,
    blind: bool = False,
) -> Iterator[Served]:
    """Serve a review of a store on a free port, as the command does."""
    rules, offline = Rules(), OfflineModel()
    deduplicator = MemoryDeduplicator(store, model)
    judges = {one.name: Judging(store, one, rules) for one in (offline, model)}
    review = Review(
        store,
        rules,
        lambda: deduplicator.audit(asker=Asker(PERSON)),
        judges,
        5.0,
        Answers(store, rules, "run_of_a_review"),
        follow_undo,
        blind=blind,
    )
    at = Address("127.0.0.1", 0).listen()
    session = BrowserSession(Address(*at.getsockname()))
    loop = LoopThread("review")
    stop = asyncio.Event()

    async def serve() -> None:
        await review.look()
        await serve_until(stop, ReviewServer(review, session).app(), at)

    serving = loop.start(serve())
    try:
        yield Served(session, f"http://127.0.0.1:{at.getsockname()[1]}")
    finally:
        loop.soon(stop.set)
        serving.result(20)
        loop.stop()


def is_new(outcome: AnswerResult) -> bool:
    return isinstance(outcome, Given) and not outcome.repeated


def is_repeated(outcome: AnswerResult) -> bool:
    return isinstance(outcome, Given) and outcome.repeated
