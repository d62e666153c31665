"""The web server of the review: it admits browsers, serves pages, and takes answers as JSON.

It checks every request, even on the loopback address. Any web page can make a browser send requests
to it, a foreign host name can resolve to this machine, and other users of the machine can reach it.
"""

from __future__ import annotations

import contextlib
import ipaddress
import secrets
import socket
from collections.abc import Sequence
from functools import partial
from typing import Any, Literal, TypeVar

from pydantic import ValidationError
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import (
    HTMLResponse,
    JSONResponse,
    PlainTextResponse,
    RedirectResponse,
    Response,
)
from starlette.routing import Route

from memory.errors import InputError, MemoryPipelineError
from memory.models import Frozen, first_problem
from memory.runtime import THIS_MACHINE, Address, Gate, in_thread
from memory.text import visible
from memory.upkeep.answers import Answered, Given
from memory.upkeep.cards import Card, card_data
from memory.upkeep.report import Markup, fill, page, source
from memory.upkeep.review import Review, ShownGroup

F = TypeVar("F", bound=Frozen)

_PLACES = (
    ("/", "Review", "r"),
    ("/conflicts", "Conflicts", "c"),
    ("/questions", "Open questions", "o"),
    ("/history", "History", "h"),
)
_HEAD = Markup('<link rel="stylesheet" href="/page.css">\n<script src="/page.js" defer></script>')
_NAV = """  <nav aria-label="Pages">
$places  </nav>
  <p class="progress quiet" role="status"><progress aria-label="Answered"></progress> <span></span>\
</p>"""
_PLACE = """    <a href="$path" data-key="$key"$current>$name <kbd>$key</kbd></a>\n"""
_FOOT = Markup("""  <form action="/memory" method="get" role="search">
    <label>A memory's id <input name="id" size="18" autocomplete="off" spellcheck="false" \
placeholder="mem_…"></label>
    <button>Show</button>
    <button type="button" id="invite">Open in another browser</button>
  </form>""")
_UNSEEN = {"fate": "", "alike": None}
_HEADERS = {
    "content-security-policy": (
        "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; "
        "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
_CARDS, _GROUPS = 100, 1_000
_ASSETS = {"page.css": "text/css", "page.js": "text/javascript"}
_TOKEN = "token"  # noqa: S105 - the name of a parameter


class BrowserSession:
    """Decides which browsers may use the review.

    A person opens an address with a token that works once. The browser then gets a cookie that
    admits it to all pages.

    >>> BrowserSession(Address("127.0.0.1", 8765)).address().partition("=")[0]
    'http://127.0.0.1:8765/?token'
    """

    def __init__(self, address: Address) -> None:
        self._port = address.port
        self._name = socket.gethostname() if address.is_every else address.name
        self._by_number = address.is_every
        names = {*THIS_MACHINE, self._name.lower()}
        self._hosts = {f"{name}:{self._port}" for name in names}
        self._hosts |= names if self._port == 80 else set()
        self._secret = secrets.token_urlsafe()
        self._tokens: set[str] = set()
        # Browsers send a cookie to every port, so its name contains the port.
        self._cookie = f"memory_review_{self._port}"

    def address(self) -> str:
        """Return a new address with a token, which admits the first browser that opens it."""
        token = secrets.token_urlsafe()
        self._tokens.add(token)
        return f"http://{self._name}:{self._port}/?{_TOKEN}={token}"

    async def check(self, request: Request) -> Response | None:
        """Return None if a request is allowed, else the response that refuses it.

        A request with an unused token gets a redirect that sets the cookie.
        """
        host, origin = request.headers.get("host", ""), request.headers.get("origin")
        if not self._is_own(host.lower()):
            return _refused("the Host header names another server")
        token = request.query_params.get(_TOKEN)
        if request.method == "GET" and token in self._tokens:
            self._tokens.discard(token)
            answer = RedirectResponse("/", status_code=303)
            answer.set_cookie(self._cookie, self._secret, httponly=True, samesite="strict")
            return answer
        if origin is None and request.method not in ("GET", "HEAD"):
            return _refused("the Origin header is missing")
        if origin is not None and origin != f"http://{host}":
            return _refused("the Origin header names another site")
        cookie = request.cookies.get(self._cookie, "")
        if not secrets.compare_digest(cookie.encode(), self._secret.encode()):
            return _refused("open the address that was printed; each works once")
        return None

    def _is_own(self, host: str) -> bool:
        """Return whether `host`, the value of a request's Host header, names this server.

        A malicious site can make its own name resolve to this machine. The header then contains
        that name.
        """
        name, _, port = host.rpartition(":")
        if self._by_number and port == str(self._port):
            with contextlib.suppress(ValueError):
                ipaddress.ip_address(name.removeprefix("[").removesuffix("]"))
                return True
        return host in self._hosts


def _refused(why: str) -> Response:
    return PlainTextResponse(f"refused: {why}\n", 403)


# --- pages ----------------------------------------------------------------------------------------


class _Answer(Frozen):
    answer: Answered
    proposal: str = ""


class _Pair(Frozen):
    older: str
    newer: str
    holds: Literal["newer", "older", "both"]
    insist: bool = False


class _Look(Frozen):
    key: str
    left_out: tuple[str, ...] = ()
    by: str = ""


class _Undo(Frozen):
    number: int
    reopen: bool = False


class ReviewServer:
    """Serves the web pages of a review. `session` decides which browsers may see them.

    >>> session = BrowserSession(Address("127.0.0.1", 8765))
    >>> server = ReviewServer(build_review(store, config, model), session)
    >>> app = server.app()  # an ASGI application, for `serve_until`
    """

    def __init__(self, review: Review, session: BrowserSession) -> None:
        self._review = review
        self._session = session

    def app(self) -> Gate:
        get, post = ["GET"], ["POST"]
        routes = [
            Route("/", self._groups, methods=get),
            Route("/conflicts", self._conflicts, methods=get),
            Route("/questions", self._questions, methods=get),
            Route("/history", self._history, methods=get),
            Route("/memory", self._memory, methods=get),
            Route("/memory/{name}", self._memory, methods=get),
            Route("/answer", self._answer, methods=post),
            Route("/conflict", self._settle, methods=post),
            Route("/look", self._look, methods=post),
            Route("/undo", self._undo, methods=post),
            Route("/invite", self._invite, methods=post),
            Route("/favicon.ico", lambda _request: Response(status_code=204), methods=get),
            Route("/{asset}", _asset, methods=get),
        ]
        handlers: Any = {MemoryPipelineError: self._failed, 404: self._not_there}
        return Gate(
            Starlette(routes=routes, exception_handlers=handlers), self._session.check, _HEADERS
        )

    async def _groups(self, _request: Request) -> Response:
        cards = await self._review.cards(_GROUPS)
        left = len(self._review.keys())
        first = f"The first {len(cards):,} of {left:,}: reload when these are answered. "
        return await self._page(
            "review",
            "Same or different?" if self._review.blind else "Groups to review",
            [self._data(card) for card in cards],
            summary=(first if left > len(cards) else "")
            + ("Every answer is recorded at once." if left else "Nothing is left."),
            here="Review",
        )

    async def _conflicts(self, _request: Request) -> Response:
        cards = await in_thread(self._review.conflicts)
        return await self._page(
            "conflicts",
            f"Pairs of which one may be outdated: {len(cards):,}",
            [card_data(card) for card in cards[:_GROUPS]],
            summary="The one that no longer holds is retired; an undo brings it back.",
            here="Conflicts",
        )

    async def _questions(self, _request: Request) -> Response:
        cards, waiting = await in_thread(self._review.questions, _CARDS)
        return await self._page(
            "questions",
            f"Open questions: {waiting:,}",
            [card_data(card) for card in cards],
            summary="The model gave no answer, its merged text was refused, or somebody left the"
            f" group for later. At most {_CARDS} of each kind are shown.",
            here="Open questions",
        )

    async def _history(self, request: Request) -> Response:
        below = _number(request.query_params.get("below"))
        cards = await in_thread(self._review.history, _CARDS, below)
        oldest = cards[-1].recorded if len(cards) == _CARDS else None
        return await self._page(
            "history",
            "History",
            [card_data(card) for card in cards],
            summary="Memories of a decision that you take back are kept apart from then on.",
            here="History",
            older=fill('<p><a href="/history?below=$at">Older</a></p>', at=oldest.number)
            if oldest
            else "",
        )

    async def _memory(self, request: Request) -> Response:
        asked = request.path_params.get("name") or request.query_params.get("id", "")
        name = asked.strip() or "none"
        found = await in_thread(self._review.memory, name)
        if found is None:
            return await self._nothing(f"no memory has the id {name}", 404)
        cards = [found.card, *found.decisions]
        replaced = found.living and found.living != name
        summary = f"{found.living} stands for it today." if replaced else ""
        return await self._page(
            "memory", name, [card_data(card) for card in cards], summary=summary
        )

    # --- answers ---

    async def _answer(self, request: Request) -> Response:
        given = await _read(request, _Answer)
        outcome = await self._review.answer(given.answer, given.proposal)
        more = await self._review.follow_ups(given.answer)
        if isinstance(outcome, Given):
            return self._said(number=outcome.number, more=[self._data(card) for card in more])
        shown = await self._review.show(given.answer.key)
        changed = shown is not None and shown.card.key != given.answer.key
        card = {"card": self._shown(shown)} if shown and changed else {}
        return self._said(409, why=outcome.why, may_insist=outcome.may_insist, **card)

    async def _settle(self, request: Request) -> Response:
        pair = await _read(request, _Pair)
        outcome = await self._review.answer_conflict(
            pair.older, pair.newer, pair.holds, insist=pair.insist
        )
        if isinstance(outcome, Given):
            return self._said(number=outcome.number)
        return self._said(409, why=outcome.why, may_insist=outcome.may_insist)

    async def _look(self, request: Request) -> Response:
        asked = await _read(request, _Look)
        left_out = frozenset(asked.left_out)
        if asked.by:
            await self._review.propose(asked.key, left_out, asked.by)
        shown = await self._review.show(asked.key, left_out)
        if shown is None:
            return self._said(404, why="this group was answered, or no longer exists")
        return self._said(card=self._shown(shown))

    async def _undo(self, request: Request) -> Response:
        asked = await _read(request, _Undo)
        await self._review.undo(asked.number, reopen=asked.reopen)
        return self._said()

    async def _invite(self, _request: Request) -> Response:
        return self._said(address=self._session.address())

    async def _failed(self, request: Request, exc: Exception) -> Response:
        if request.method == "POST":
            return self._said(409, why=str(exc))
        return await self._nothing(str(exc), 409)

    async def _not_there(self, _request: Request, _exc: Exception) -> Response:
        return await self._nothing("this page does not exist", 404)

    # --- inside ---

    def _data(self, card: Card) -> dict[str, Any]:
        """Return a card for the page; in a blind review, without what the person must not see."""
        data = card_data(card)
        if self._review.blind:
            data |= dict.fromkeys(("alike", "similarity", "certainty"))
            data |= dict.fromkeys(("action", "reason", "in_favour", "against"), "")
            data |= {"kept": [], "members": [one | _UNSEEN for one in data["members"]]}
        return data

    def _shown(self, shown: ShownGroup) -> dict[str, Any]:
        data = self._data(shown.card) | {"note": shown.note}
        if self._review.blind:
            return data
        data |= {"goes": shown.retired, "proposal": None}
        if shown.proposal is not None:
            decision = shown.proposal.decision
            data["proposal"] = {
                "by": shown.proposal.by,
                "pending": decision.pending,
                "why": visible(decision.reason),
                "texts": [visible(one.memory.content) for one in decision.survivors],
                "token": shown.proposal.token,
            }
        return data

    def _said(self, status: int = 200, **values: Any) -> Response:
        return JSONResponse(values | {"progress": self._review.progress()._asdict()}, status)

    async def _nothing(self, why: str, status: int) -> Response:
        return await self._page("nothing", "Nothing to show", [], status, summary=visible(why))

    async def _page(
        self,
        kind: str,
        headline: str,
        cards: Sequence[dict[str, Any]],
        status: int = 200,
        here: str = "",
        **parts: Any,
    ) -> Response:
        write = partial(
            page,
            headline,
            cards,
            kind=kind,
            saves="post",
            blind=self._review.blind and kind == "review",
            judges=list(self._review.judges),
            progress=self._review.progress()._asdict(),
            title=f"{headline} · memory-dedup",
            head=_HEAD,
            top=_navigation(here),
            foot=_FOOT,
            **parts,
        )
        return HTMLResponse(await in_thread(write), status)


def _navigation(here: str) -> Markup:
    """Return the links to all pages; `here` is the name of the page that is shown."""
    current = Markup(' aria-current="page"')
    places = (
        fill(_PLACE, path=path, name=name, key=key, current=current if name == here else "")
        for path, name, key in _PLACES
    )
    return fill(_NAV, places=Markup("".join(places)))


async def _read(request: Request, body: type[F]) -> F:
    try:
        return body.model_validate_json(await request.body())
    except ValidationError as exc:
        raise InputError("the answer", str(first_problem(exc))) from exc


def _number(text: str | None) -> int | None:
    return int(text) if text and text.isdecimal() and len(text) < 10 else None


async def _asset(request: Request) -> Response:
    name = request.path_params["asset"]
    if name not in _ASSETS:
        raise HTTPException(404)
    return Response(source(name), media_type=_ASSETS[name])
