"""A review served on loopback, in a thread of the test."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import httpx2

from memory.deduplicator import Judging, MemoryDeduplicator
from memory.ledger import DecisionRecord
from memory.models import PERSON, LanguageModel, Rules
from memory.providers import OfflineModel
from memory.runtime import Address, LoopThread, serve_until
from memory.store import Asker, MemoryStore
from memory.upkeep.answers import AnswerResult, Answers, Given
from memory.upkeep.review import Review
from memory.upkeep.server import BrowserSession, ReviewServer

CardData = dict[str, Any]


@dataclass
class Browser:
    """A client that has the cookie and sends what the script of the page sends."""

    client: httpx2.Client
    url: str

    def get(self, path: str) -> httpx2.Response:
        return self.client.get(self.url + path)

    def post(self, path: str, body: object = None) -> httpx2.Response:
        return self.client.post(self.url + path, json=body, headers={"origin": self.url})

    def data(self, path: str = "/") -> dict[str, Any]:
        """Return the data of a page's script."""
        found: dict[str, Any] = json.loads(
            self.get(path).text.partition('id="data">')[2].partition("</script>")[0]
        )
        return found

    def cards(self, path: str = "/") -> list[CardData]:
        found: list[CardData] = self.data(path)["cards"]
        return found

    def card(self, words: str, path: str = "/") -> CardData:
        """Return the card in which some words stand."""
        return next(card for card in self.cards(path) if words in text_of(card))

    def look(self, card: CardData, left_out: Sequence[str] = (), by: str = "") -> CardData:
        """Return a card as it is now, with the proposal about it."""
        asked = {"key": card["key"], "left_out": left_out, "by": by}
        found: CardData = self.post("/look", asked).json()["card"]
        return found

    def say(
        self, answer: str, card: CardData | None = None, proposal: str = "", **more: object
    ) -> httpx2.Response:
        """Answer a card, or the first one."""
        card = card or self.cards()[0]
        members = [{"id": one["id"], "hash": one["hash"]} for one in card["members"]]
        said = {"key": card["key"], "members": members, "answer": answer, **more}
        return self.post("/answer", {"answer": said, "proposal": proposal})


def text_of(card: CardData) -> str:
    return " | ".join("".join(member["text"]) for member in card["members"])


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
    judges = {one.name: Judging(store, one, rules).within(5.0) for one in (offline, model)}
    review = Review(
        store,
        rules,
        lambda: deduplicator.audit(asker=Asker(PERSON)),
        judges,
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
