"""Try a language model on questions with known answers: merges, a page, and twenty turns.

The invented people and facts ship with the project. Nothing is stored, and no memory is sent.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import combinations

from pydantic import Field

from memory.deduplicator import FAITHFUL, TRIAL
from memory.errors import ModelError
from memory.models import Frozen, LanguageModel, Memory, Question, Turn, Usage

_START = datetime(2026, 3, 2, 18, 0, tzinfo=UTC)  # a Monday
_MOST_WRONG = 1
_ENOUGH = 0.8
_MOST_NOISE = 3
_AT_ONCE = 10

# --- the page: texts, each with the number of its group; 0 for a text that is in no group ---------

_PAGE = (
    (1, "Edda is knitting a blanket."),
    (0, "Edda sings in the choir of her village."),
    (2, "Edda would like to swim across the lake one day."),
    (1, "Edda's blanket is for her nephew Jon, who starts school in August."),
    (0, "Edda's choir gave a concert in Ghent in May."),
    (3, "Edda is allergic to walnuts."),
    (0, "Edda rowed across the lake with Jon on Sunday."),
    (2, "Edda swam across the lake in 41 minutes and was proud of herself."),
    (0, "Edda rowed across the lake alone on Thursday."),
    (3, "Walnuts make Edda's throat swell, so she never eats them."),
    (0, "Edda's brother Piet is not allergic to anything."),
    (0, "Edda bought 3 kilos of apples at the market."),
)

# --- the turns: who says what, and the words of the facts that a memory must state ----------------

_TURNS = (
    ("Runa", "Hi Otis! Long time no see."),
    ("Otis", "Hi! How are you?"),
    ("Runa", "Fine. I have started a course in welding, every Tuesday evening."),
    ("Otis", "Welding? What do you want to build?"),
    ("Runa", "A gate for my mother's garden. The old one is rusty."),
    ("Otis", "Lovely. I gave up my flat in Turku and moved in with my sister Vera."),
    ("Runa", "Oh! Why?"),
    ("Otis", "The rent went up to 950 euros. And Vera needs help with the twins."),
    ("Runa", "That makes sense. Say hello to her."),
    ("Otis", "I will, thanks."),
    ("Runa", "By the way, my dog Biscuit had an operation on his hip yesterday."),
    ("Otis", "Poor Biscuit! Is he all right?"),
    ("Runa", "He is, but he must not climb stairs for six weeks."),
    ("Otis", "I hope he gets well soon. I have to run, talk later."),
    ("Runa", "Wait: are you still a vegetarian? I want to cook for you."),
    ("Otis", "No, I eat fish now. But no mushrooms, they make me ill."),
    ("Runa", "Noted. What about Saturday?"),
    ("Otis", "Saturday I play chess at the club. It is the final."),
    ("Runa", "Then Sunday. Good luck!"),
    ("Otis", "Thank you, see you on Sunday."),
)
_FACTS = (
    ("weld",),
    ("gate", "mother"),
    ("vera", "turku"),
    ("biscuit", "hip"),
    ("fish",),
    ("mushroom",),
    ("chess",),
)


class ModelTrial(Frozen):
    """The results of a model's trial.

    `accepted`: how many of the four wrong merges it accepted. `refused`: how many of the four
    faithful merges it refused. `pairs_found` of `pairs` of memories that state the same fact were
    in one group, and `pairs_wrong` others. `facts_found` of `facts` facts of the turns became
    memories; `noise` memories state none of them. `failures`: why a part has no answer.

    >>> trial = await try_model(model)
    >>> trial.reads_again, trial.reads_pages, trial.extracts, trial.usage.calls
    (False, False, True, 0)
    """

    model: str
    accepted: int = 0
    refused: int = 0
    pairs: int = 0
    pairs_found: int = 0
    pairs_wrong: int = 0
    facts: int = len(_FACTS)
    facts_found: int = 0
    noise: int = 0
    failures: dict[str, str] = Field(default_factory=dict)
    usage: Usage = Usage()
    seconds: float = 0.0

    @property
    def reads_again(self) -> bool:
        """Whether the model is good enough for second readings."""
        return "merges" not in self.failures and self.accepted <= _MOST_WRONG >= self.refused

    @property
    def reads_pages(self) -> bool:
        enough = self.pairs_found >= _ENOUGH * self.pairs > 0
        return "page" not in self.failures and enough and self.pairs_wrong <= _MOST_WRONG

    @property
    def extracts(self) -> bool:
        enough = self.facts_found >= _ENOUGH * self.facts
        return "turns" not in self.failures and enough and self.noise <= _MOST_NOISE


@dataclass
class _Answers:
    usage: Usage
    failures: dict[str, str]

    def failed(self, part: str, exc: ModelError) -> None:
        self.failures[part] = str(exc)
        self.usage += Usage.of_failure(exc)


async def try_model(
    model: LanguageModel, clock: Callable[[], float] = time.perf_counter
) -> ModelTrial:
    """Ask a model about eight merges, a page and twenty turns; return what it got right.

    A model that fails at one part is still asked about the others. `clock` gives seconds.

    >>> import asyncio
    >>> from memory.providers import OfflineModel
    >>> asyncio.run(try_model(OfflineModel())).failures["page"]
    'it reads no pages'
    """
    began, answers = clock(), _Answers(Usage(), {})
    found = {
        **await _merges(model, answers),
        **await _page(model, answers),
        **await _turns(model, answers),
    }
    return ModelTrial(
        model=model.name,
        failures=answers.failures,
        usage=answers.usage,
        seconds=round(clock() - began, 1),
        **found,
    )


async def _merges(model: LanguageModel, answers: _Answers) -> dict[str, int]:
    try:
        answer = await model.reread(TRIAL)
    except ModelError as exc:
        answers.failed("merges", exc)
        return {}
    answers.usage += answer.usage
    if all(reading is None for reading in answer.readings):
        answers.failures["merges"] = "it gives no second reading"
    accepted = [reading is not None and reading.accepted for reading in answer.readings]
    pairs = list(zip(accepted, FAITHFUL, strict=False))
    return {
        "accepted": pairs.count((True, False)),
        "refused": pairs.count((False, True)),
    }


async def _page(model: LanguageModel, answers: _Answers) -> dict[str, int]:
    expected = {
        (a, b) for (a, one), (b, other) in combinations(enumerate(_GROUPS), 2) if one == other != 0
    }
    counts = {"pairs": len(expected)}
    if model.page_size < len(_PAGE):
        answers.failures["page"] = "it reads no pages"
        return counts
    try:
        verdict = await model.judge(Question(page_shown(), "a trial", 0.0, is_page=True))
    except ModelError as exc:
        answers.failed("page", exc)
        return counts
    answers.usage += verdict.usage
    joined = {pair for part in verdict.parts for pair in combinations(sorted(part.members), 2)}
    return counts | {
        "pairs_found": len(joined & expected),
        "pairs_wrong": len(joined - expected),
    }


async def _turns(model: LanguageModel, answers: _Answers) -> dict[str, int]:
    turns, said = turns_shown(), list[str]()
    for start in range(0, len(turns), _AT_ONCE):
        chunk, before = turns[start : start + _AT_ONCE], turns[max(0, start - 4) : start]
        try:
            extraction = await model.extract(chunk, context=before)
        except ModelError as exc:
            answers.failed("turns", exc)
            continue
        answers.usage += extraction.usage
        said += [one.content.casefold() for one in extraction.candidates]
    stated = [{fact for fact in _FACTS if all(word in text for word in fact)} for text in said]
    return {
        "facts_found": len(set[tuple[str, ...]]().union(*stated)),
        "noise": sum(not facts for facts in stated),
    }


_GROUPS = tuple(group for group, _ in _PAGE)


def page_shown() -> tuple[Memory, ...]:
    """Return the memories of the page, oldest first."""
    return tuple(
        Memory(
            id=f"mem_{n:012x}", content=text, user="Edda", timestamp=_START + timedelta(days=7 * n)
        )
        for n, (_, text) in enumerate(_PAGE)
    )


def turns_shown() -> Sequence[Turn]:
    return [
        Turn(
            speaker=speaker,
            text=text,
            at=_START + timedelta(minutes=n),
            id=str(n),
            conversation="trial",
        )
        for n, (speaker, text) in enumerate(_TURNS)
    ]
