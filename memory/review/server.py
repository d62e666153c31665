"""The review page's server: reads a form, asks the review, renders."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import parse_qs, urlencode

from pydantic import ValidationError
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from memory.errors import InputError, MemoryPipelineError
from memory.ledger import Reader
from memory.models import first_problem
from memory.review import figures, overview
from memory.review.admission import BrowserSession
from memory.review.answers import Already, Given, Objected, Outcome, Refused
from memory.review.cards import recorded_cards
from memory.review.decisions_file import Answer, Answered
from memory.review.pages import card_data, environment, source
from memory.review.session import GroupRow, Review, Shown
from memory.runtime import Gate, in_thread

logger = logging.getLogger(__name__)

_STATES = {
    "": "any",
    "judge": "needs a decision",
    "rules": "the rules can tell",
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
_LOOK = "look"
"""What Enter in a form means: show the group as it is filled in, and answer nothing."""
_PAGE = 25
_GROUPS = 100
Form = dict[str, list[str]]
_ASSETS = {"style.css": "text/css", "review.css": "text/css", "review.js": "text/javascript"}


class ReviewServer:
    """The pages of one review, for the browsers of one session."""

    def __init__(self, review: Review, session: BrowserSession) -> None:
        self._review = review
        self._session = session
        self._pages = environment()
        self._pages.globals["card_data"] = card_data

    def app(self) -> Gate:
        get, post = ["GET"], ["POST"]
        routes = [
            Route("/", self._next, methods=get),
            Route("/group/{key}", self._group, methods=get),
            Route("/groups", self._groups, methods=get),
            Route("/questions", self._questions, methods=get),
            Route("/history", self._history, methods=get),
            Route("/memory", self._find_memory, methods=get),
            Route("/memory/{name}", self._memory, methods=get),
            Route("/figures", self._figures, methods=get),
            Route("/answer", self._answer, methods=post),
            Route("/propose", self._propose, methods=post),
            Route("/back", self._take_back, methods=post),
            Route("/undo/{number:int}", self._undo, methods=post),
            Route("/invite", self._invite, methods=post),
            Route("/favicon.ico", _nothing, methods=get),
            Route("/{asset}", _asset, methods=get),
        ]
        handlers: Any = {MemoryPipelineError: self._failed, 404: self._not_there}
        pages = Starlette(routes=routes, exception_handlers=handlers)
        return Gate(pages, self._session.check, _HEADERS)

    # --- groups ---

    async def _next(self, request: Request) -> Response:
        key = await self._review.next_key()
        said = request.query_params.get("said")
        if key is not None:
            return _to(f"/group/{key}", said=said)
        return await self._page("done.html", said=await self._said(said))

    async def _group(self, request: Request) -> Response:
        left_out = frozenset(request.query_params.getlist("without"))
        key, said = request.path_params["key"], request.query_params.get("said")
        was_left = key in self._review.keys()  # noqa: SIM118 - no mapping
        shown = await self._review.show(key, left_out)
        if shown is None:
            return _to("/", said=said) if was_left else await self._page("gone.html", status=404)
        return await self._show(shown, said=await self._said(said))

    async def _show(self, shown: Shown, **more: Any) -> Response:
        told: dict[str, Any] = {"said": None, "objection": "", "refusal": "", "text": None, **more}
        return await self._page(
            "group.html",
            shown=shown,
            card=card_data(shown.card),
            contents={member.id: member.content for member in shown.card.members},
            judges=_to_ask(self._review.proposals.judges, shown),
            after=self._review.after(shown.card.key),
            **told,
        )

    async def _groups(self, request: Request) -> Response:
        given = request.query_params
        chosen = {name: given.get(name, "") for name in ("state", "low", "high")}
        every = self._review.rows()
        rows = [row for row in every if _matches(row, chosen, blind=self._review.blind)]
        at = given.get("at", "")
        here = next((n for n, row in enumerate(rows) if row.key == at), 0)
        page = _number(given.get("page"), here // _GROUPS + 1)
        start = max(0, (page - 1) * _GROUPS)
        return await self._page(
            "groups.html",
            rows=rows[start : start + _GROUPS],
            number=page,
            pages=-(-len(rows) // _GROUPS),
            states=_STATES,
            chosen=chosen,
            filtered=len(rows) < len(every),
            at=at,
            query=urlencode({**chosen, "at": at}),
        )

    async def _answer(self, request: Request) -> Response:
        form = await _form(request)
        told = _told(form)
        left_out = frozenset(form.get("left_out", ()))
        key = _one(form, "key")
        if told == _LOOK:
            return _to(f"/group/{key}", without=sorted(left_out))
        narrowed = left_out != frozenset(form.get("shown_without", ()))
        if told == Answer.APPLY and narrowed and len(form.get("member", ())) - len(left_out) > 1:
            return _to(f"/group/{key}", without=sorted(left_out))  # see first what remains
        try:
            answered = _answered(form)
        except ValidationError as exc:
            problem = InputError("the text", str(first_problem(exc)))
            return await self._again(key, left_out, form, refusal=problem.problem)
        outcome = await self._review.answer(answered, _one(form, "proposal"))
        if _one(form, "back") == "questions" and not isinstance(outcome, Objected | Refused):
            return _to("/questions")
        return await self._outcome(outcome, key, left_out, form)

    async def _outcome(
        self, outcome: Outcome, key: str, left_out: frozenset[str], form: Form
    ) -> Response:
        if isinstance(outcome, (Given, Already)):
            return _to("/", said=str(outcome.number))
        if isinstance(outcome, Objected):
            return await self._again(key, left_out, form, objection=outcome.why)
        return await self._again(key, left_out, form, refusal=outcome.why)

    async def _again(self, key: str, left_out: frozenset[str], form: Form, **why: str) -> Response:
        """The group as it is now, with what was written and why it was not done."""
        shown = await self._review.show(key, left_out)
        if shown is None:
            return await self._page("gone.html", why=next(iter(why.values()), ""))
        return await self._show(shown, text=_one(form, "text") or None, **why)

    async def _propose(self, request: Request) -> Response:
        form = await _form(request)
        key, left_out = _one(form, "key"), frozenset(form.get("left_out", ()))
        await self._review.propose(key, left_out, _one(form, "by"))
        return _to(f"/group/{key}", without=sorted(left_out))

    async def _take_back(self, _request: Request) -> Response:
        record = await self._review.take_back()
        return _to("/", said=str(record.number) if record is not None else None)

    # --- the other pages ---

    async def _questions(self, _request: Request) -> Response:
        cards, waiting = await self._read(lambda reader: overview.pending(reader, _PAGE))
        pairs, failed = await self._read(lambda reader: overview.undecided(reader, _PAGE))
        names = [member.id for card in cards for member in card.members]
        rows = await self._read(lambda reader: reader.memories.rows(names))
        return await self._page(
            "questions.html",
            cards=cards,
            waiting=waiting,
            pairs=pairs,
            failed=failed,
            open_members=lambda card: overview.open_group(
                [rows[member.id] for member in card.members if member.id in rows]
            ),
            pair_members=lambda pair: overview.open_group([*pair.one, *pair.other]),
        )

    async def _history(self, request: Request) -> Response:
        below = _number(request.query_params.get("below"), 0) or None
        cards = await self._read(lambda reader: overview.history(reader, _PAGE, below))
        return await self._page("history.html", cards=cards, full=len(cards) == _PAGE)

    async def _find_memory(self, request: Request) -> Response:
        return _to(f"/memory/{request.query_params.get('id', '').strip() or 'none'}")

    async def _memory(self, request: Request) -> Response:
        name = request.path_params["name"]
        found = await self._read(lambda reader: overview.lineage(reader, name))
        if found is None:
            return await self._page("gone.html", 404, why=f"no memory has the id {name}")
        return await self._page("memory.html", memory_id=name, lineage=found)

    async def _figures(self, _request: Request) -> Response:
        found = await self._read(lambda reader: figures.replay(reader.decisions.steps()))
        span = (found[0].at, found[-1].at) if found else None
        return await self._page("figures.html", lines=figures.lines(found), span=span)

    async def _undo(self, request: Request) -> Response:
        await self._review.undo(request.path_params["number"])
        return _to("/history")

    async def _invite(self, _request: Request) -> Response:
        return await self._page("invite.html", address=self._session.address())

    async def _failed(self, _request: Request, exc: Exception) -> Response:
        return await self._page("gone.html", 409, why=str(exc))

    async def _not_there(self, _request: Request, _exc: Exception) -> Response:
        return await self._page("gone.html", 404, why="there is no such page")

    # --- inside ---

    async def _page(self, name: str, status: int = 200, **values: Any) -> Response:
        template = self._pages.get_template(f"review/{name}")
        progress = await self._review.progress()
        told = {"why": "", "progress": progress, "blind": self._review.blind, **values}
        return HTMLResponse(await in_thread(template.render, told), status)

    async def _read(self, look: Callable[[Reader], Any]) -> Any:
        def read() -> Any:
            with self._review.store.ledger.reading() as reader:
                return look(reader)

        return await in_thread(read)

    async def _said(self, number: str | None) -> dict[str, Any] | None:
        """The decision that the last answer became, as a card."""
        wanted = _number(number, 0)

        def look(reader: Reader) -> dict[str, Any] | None:
            record = reader.decisions.get(wanted) if wanted else None
            return card_data(recorded_cards(reader, [record])[0]) if record is not None else None

        told: dict[str, Any] | None = await self._read(look)
        return told


def _matches(row: GroupRow, chosen: Mapping[str, str], *, blind: bool) -> bool:
    """Whether a group passes the filters; a number that cannot be read filters nothing."""
    if chosen["state"] not in ("", row.state):
        return False
    if blind:
        return True
    low, high = _share(chosen["low"], 0.0), _share(chosen["high"], 1.0)
    return low <= round(row.similarity, 2) <= high


def _share(given: str, otherwise: float) -> float:
    try:
        return float(given)
    except ValueError:
        return otherwise


def _to_ask(judges: Sequence[str], shown: Shown) -> list[str]:
    """Who has not proposed yet; the first proposes unasked."""
    known = {judges[0]} if shown.proposal is None else {judges[0], shown.proposal.by}
    return [judge for judge in judges if judge not in known]


# --- forms ----------------------------------------------------------------------------------------


async def _form(request: Request) -> Form:
    """Raises: InputError."""
    try:
        body = await request.body()
        return parse_qs(body.decode("utf-8"), keep_blank_values=True, max_num_fields=1_000)
    except ValueError as exc:
        raise InputError("the form", "cannot be read") from exc


def _one(form: Form, name: str) -> str:
    return form.get(name, [""])[0]


def _told(form: Form) -> str:
    """Return the answer; who chooses the member that stays says that they are the same."""
    chosen = Answer.SAME.value if _one(form, "stays") else ""
    return _one(form, "answer") or chosen


def _answered(form: Form) -> Answered:
    """Raises: ValidationError."""
    stays = _one(form, "stays") or None
    told = _told(form)
    writes = told == "text"
    members = [member.partition(":") for member in form.get("member", ())]
    fields = {
        "key": _one(form, "key"),
        "members": [{"id": name, "hash": text} for name, _, text in members],
        "answer": Answer.APPLY if writes else told,
        "left_out": form.get("left_out", []),
        "text": _one(form, "text").replace("\r\n", "\n") if writes else None,
        "insist": bool(_one(form, "insist")),
        "retired": form.get("retired"),
        "stays": stays if told == Answer.SAME else None,
    }
    return Answered.model_validate_json(json.dumps(fields))


def _number(told: str | None, otherwise: int) -> int:
    return int(told) if told and told.isdecimal() and len(told) < 10 else otherwise


def _to(path: str, **values: str | list[str] | None) -> Response:
    given = {name: value for name, value in values.items() if value}
    query = f"?{urlencode(given, doseq=True)}" if given else ""
    return RedirectResponse(f"{path}{query}", status_code=303)


async def _nothing(_request: Request) -> Response:
    return Response(status_code=204)


async def _asset(request: Request) -> Response:
    name = request.path_params["asset"]
    if name not in _ASSETS:
        raise HTTPException(404)
    folder = "" if name == "style.css" else "review/"
    return Response(source(f"{folder}{name}"), media_type=_ASSETS[name])
