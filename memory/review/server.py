"""The web server of the review: it admits browsers, reads forms, and renders pages.

It checks every request, even on the loopback address. Any web page can make a browser send requests
to it, a foreign host name can resolve to this machine, and other users of the machine can reach it.
"""

from __future__ import annotations

import contextlib
import ipaddress
import json
import secrets
import socket
from typing import Any
from urllib.parse import urlencode

from pydantic import ValidationError
from starlette.applications import Starlette
from starlette.datastructures import QueryParams
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route

from memory.errors import InputError, MemoryPipelineError
from memory.ledger import Reader
from memory.models import first_problem
from memory.review.answers import Answered, Given, Refused, ReviewAnswer
from memory.review.cards import memory_history, recorded_cards
from memory.review.pages import (
    card_data,
    environment,
    failed_pairs,
    lines,
    open_group,
    replay,
    source,
)
from memory.review.session import PlannedGroup, Review, ShownGroup
from memory.runtime import THIS_MACHINE, Address, Gate, in_thread

_STATES = {
    "": "any",
    "judge": "needs a decision",
    "rules": "settled by the rules",
    "later": "left for later",
}
_HEADERS = {
    "content-security-policy": (
        "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
_CARDS, _GROUPS = 25, 100
_ASSETS = {"style.css": "text/css", "review.css": "text/css", "review.js": "text/javascript"}
_TOKEN = "token"  # noqa: S105 - the name of a parameter


class BrowserSession:
    """Decides which browsers may use the review.

    A person opens an address with a token that works once. The browser then gets a cookie that
    admits it to all pages.
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


class ReviewServer:
    """Serves the web pages of a review. `session` decides which browsers may see them."""

    def __init__(self, review: Review, session: BrowserSession) -> None:
        self._review = review
        self._session = session
        self._pages = environment()

    def app(self) -> Gate:
        get, post = ["GET"], ["POST"]
        routes = [
            Route("/", self._next, methods=get),
            Route("/group/{key}", self._group, methods=get),
            Route("/groups", self._groups, methods=get),
            Route("/questions", self._questions, methods=get),
            Route("/history", self._history, methods=get),
            Route("/memory", self._memory, methods=get),
            Route("/memory/{name}", self._memory, methods=get),
            Route("/figures", self._figures, methods=get),
            Route("/answer", self._answer, methods=post),
            Route("/propose", self._propose, methods=post),
            Route("/back", self._take_back, methods=post),
            Route("/undo/{number:int}", self._undo, methods=post),
            Route("/invite", self._invite, methods=post),
            Route("/favicon.ico", lambda _request: Response(status_code=204), methods=get),
            Route("/{asset}", _asset, methods=get),
        ]
        handlers: Any = {MemoryPipelineError: self._failed, 404: self._not_there}
        return Gate(
            Starlette(routes=routes, exception_handlers=handlers), self._session.check, _HEADERS
        )

    # --- groups ---

    async def _next(self, request: Request) -> Response:
        key = await self._review.next_key()
        if key is not None:
            return _redirect(f"/group/{key}", last=request.query_params.get("last"))
        return await self._page("done.html")

    async def _group(self, request: Request) -> Response:
        left_out = frozenset(request.query_params.getlist("without"))
        key, last = request.path_params["key"], request.query_params.get("last")
        was_left = key in self._review.keys()  # noqa: SIM118 - no mapping
        shown = await self._review.show(key, left_out)
        if shown is None:
            return _redirect("/", last=last) if was_left else await self._page("gone.html", 404)

        def look(reader: Reader) -> dict[str, Any] | None:
            record = reader.decisions.get(_number(last, 0))
            return card_data(recorded_cards(reader, [record])[0]) if record is not None else None

        return await self._show(shown, last=await in_thread(self._review.read, look))

    async def _show(
        self,
        shown: ShownGroup,
        *,
        last: dict[str, Any] | None = None,
        text: str | None = None,
        objection: str = "",
        refusal: str = "",
    ) -> Response:
        by = shown.proposal.by if shown.proposal else None
        _, *others = self._review.judges  # the first is asked automatically
        return await self._page(
            "group.html",
            shown=shown,
            card=card_data(shown.card),
            contents={member.id: member.content for member in shown.card.members},
            judges=[name for name in others if name != by],
            after=self._review.after(shown.card.key),
            last=last,
            text=text,
            objection=objection,
            refusal=refusal,
        )

    async def _groups(self, request: Request) -> Response:
        params = request.query_params
        chosen = {name: params.get(name, "") for name in ("state", "low", "high")}
        at, left = params.get("at", ""), self._review.groups()
        groups = [
            (group, state)
            for group, state in left
            if chosen["state"] in ("", state)
            and (self._review.blind or _is_between(group, chosen["low"], chosen["high"]))
        ]
        position = next((n for n, (group, _) in enumerate(groups) if group.key == at), 0)
        page = _number(params.get("page"), position // _GROUPS + 1)
        start = max(0, (page - 1) * _GROUPS)
        return await self._page(
            "groups.html",
            groups=groups[start : start + _GROUPS],
            number=page,
            pages=-(-len(groups) // _GROUPS),
            states=_STATES,
            chosen=chosen,
            filtered=len(groups) < len(left),
            at=at,
            query=urlencode({**chosen, "at": at}),
        )

    async def _answer(self, request: Request) -> Response:
        form = await _form(request)
        key, left_out = form.get("key", ""), frozenset(form.getlist("left_out"))
        # A person may only choose the member that stays.
        answer = form.get("answer") or (ReviewAnswer.SAME.value if form.get("stays") else "")
        narrowed = left_out != frozenset(form.getlist("shown_without"))
        remaining = len(form.getlist("member")) - len(left_out)
        shows_first = answer == ReviewAnswer.APPLY and narrowed and remaining > 1
        if answer == "look" or shows_first:  # Enter sends "look"
            return _redirect(f"/group/{key}", without=sorted(left_out))
        try:
            outcome = await self._review.answer(_answered(form, answer), form.get("proposal", ""))
        except ValidationError as exc:
            outcome = Refused(str(first_problem(exc)))
        if isinstance(outcome, Given):
            if form.get("back") == "questions":
                return _redirect("/questions")
            return _redirect("/", last=str(outcome.number))
        shown = await self._review.show(key, left_out)
        if shown is None:
            return await self._page("gone.html", why=outcome.why)
        return await self._show(
            shown,
            text=form.get("text") or None,
            objection=outcome.why if outcome.may_insist else "",
            refusal="" if outcome.may_insist else outcome.why,
        )

    async def _propose(self, request: Request) -> Response:
        form = await _form(request)
        key, left_out = form.get("key", ""), frozenset(form.getlist("left_out"))
        await self._review.propose(key, left_out, form.get("by", ""))
        return _redirect(f"/group/{key}", without=sorted(left_out))

    async def _take_back(self, _request: Request) -> Response:
        record = await self._review.take_back()
        return _redirect("/", last=str(record.number) if record is not None else None)

    # --- the other pages ---

    async def _questions(self, _request: Request) -> Response:
        def look(reader: Reader) -> dict[str, Any]:
            pending = reader.decisions.pending()
            cards = recorded_cards(reader, pending[-_CARDS:])[::-1]
            names = [member.id for card in cards for member in card.members]
            rows = reader.memories.rows(names)
            failed = failed_pairs(reader)
            return {
                "cards": cards,
                "open": [
                    [rows[member.id] for member in card.members if member.id in rows]
                    for card in cards
                ],
                "waiting": len(pending),
                "pairs": failed[:_CARDS],
                "failed": len(failed),
            }

        found = await in_thread(self._review.read, look)
        return await self._page("questions.html", open_group=open_group, **found)

    async def _history(self, request: Request) -> Response:
        below = _number(request.query_params.get("below"), 0) or None
        cards = await in_thread(
            self._review.read,
            lambda reader: recorded_cards(reader, reader.decisions.latest(_CARDS, below))[::-1],
        )
        return await self._page("history.html", cards=cards, full=len(cards) == _CARDS)

    async def _memory(self, request: Request) -> Response:
        asked = request.path_params.get("name") or request.query_params.get("id", "")
        name = asked.strip() or "none"
        found = await in_thread(self._review.read, lambda reader: memory_history(reader, name))
        if found is None:
            return await self._page("gone.html", 404, why=f"no memory has the id {name}")
        return await self._page("memory.html", memory_id=name, history=found)

    async def _figures(self, _request: Request) -> Response:
        found = await in_thread(
            self._review.read, lambda reader: list(replay(reader.decisions.steps()))
        )
        return await self._page(
            "figures.html",
            lines=lines(found) if found else (),
            span=(found[0][0], found[-1][0]) if found else None,
        )

    async def _undo(self, request: Request) -> Response:
        await self._review.undo(request.path_params["number"])
        return _redirect("/history")

    async def _invite(self, _request: Request) -> Response:
        return await self._page("invite.html", address=self._session.address())

    async def _failed(self, _request: Request, exc: Exception) -> Response:
        return await self._page("gone.html", 409, why=str(exc))

    async def _not_there(self, _request: Request, _exc: Exception) -> Response:
        return await self._page("gone.html", 404, why="this page does not exist")

    # --- inside ---

    async def _page(self, name: str, status: int = 200, **values: Any) -> Response:
        template = self._pages.get_template(f"review/{name}")
        always = {"why": "", "progress": self._review.progress(), "blind": self._review.blind}
        return HTMLResponse(await in_thread(template.render, always | values), status)


def _is_between(group: PlannedGroup, low: str, high: str) -> bool:
    try:
        return float(low or 0) <= round(group.similarity, 2) <= float(high or 1)
    except ValueError:
        return True


# --- forms ----------------------------------------------------------------------------------------


async def _form(request: Request) -> QueryParams:
    try:
        return QueryParams((await request.body()).decode())
    except ValueError as exc:
        raise InputError("the form", "is not readable") from exc


def _answered(form: QueryParams, answer: str) -> Answered:
    writes = answer == "text"
    members = [member.partition(":") for member in form.getlist("member")]
    fields = {
        "key": form.get("key", ""),
        "members": [{"id": name, "hash": text} for name, _, text in members],
        "answer": ReviewAnswer.APPLY if writes else answer,
        "left_out": form.getlist("left_out"),
        "text": form.get("text", "").replace("\r\n", "\n") if writes else None,
        "insist": bool(form.get("insist")),
        "retired": form.getlist("retired") or None,
        "stays": (form.get("stays") or None) if answer == ReviewAnswer.SAME else None,
    }
    return Answered.model_validate_json(json.dumps(fields))


def _number(text: str | None, otherwise: int) -> int:
    return int(text) if text and text.isdecimal() and len(text) < 10 else otherwise


def _redirect(path: str, **values: str | list[str] | None) -> Response:
    given = {name: value for name, value in values.items() if value}
    query = f"?{urlencode(given, doseq=True)}" if given else ""
    return RedirectResponse(f"{path}{query}", status_code=303)


async def _asset(request: Request) -> Response:
    name = request.path_params["asset"]
    if name not in _ASSETS:
        raise HTTPException(404)
    folder = "" if name == "style.css" else "review/"
    return Response(source(f"{folder}{name}"), media_type=_ASSETS[name])
