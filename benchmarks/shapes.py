"""Measure how long comparison, normalisation and extraction take for long texts of any shape.

    python -m benchmarks.shapes [--characters 500 1000 2000 4000 100000] [--only compare] [--json]

A shape is a unit (a passive, a superscript, a Spanish clause, an emoji ...) that is repeated until
the text has a certain length. Each text is compared with several variants of it: with its clauses
in another order, with a word added at the end, at the start or in the middle, with another word,
and so on. Each pair is compared in both directions and verified; each text is normalised, parsed
and read by the offline model.

The clock covers one call, on one core, with texts that were never read before. A call that takes
longer than `--limit` seconds is stopped and shown as slower. All texts are made up.
"""

from __future__ import annotations

import argparse
import base64
import gc
import itertools
import json
import random
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial
from types import FrameType

from memory.coverage import (
    compare,
    difference,
    differs,
    marked,
    parse,
    verify,
    verify_by_words,
)
from memory.text import (
    asked_to_remember,
    identity,
    normalise,
    only_asks_to_remember,
    retold,
    sentences,
    statements,
    telling_words,
    text_key,
    visible,
    when_field,
)

AT, LATER = datetime(2026, 5, 8, tzinfo=UTC), datetime(2026, 7, 3, tzinfo=UTC)
_RANDOM = random.Random(7)
_BASE64 = base64.b64encode(_RANDOM.randbytes(90_000)).decode()
_WORDS = [
    "".join(_RANDOM.choice("bdfgklmnprst") + _RANDOM.choice("aeiou") for _ in range(3))
    for _ in range(20_000)
]

SHAPES: Mapping[str, str] = {
    # English clauses that a rewording is undone in
    "passive": "The ball was thrown by Mia and ",
    "passive without stops": "the ball is thrown by Mia ",
    "be and participle": "is thrown ",
    "by": "by ",
    "is by": "is thrown by Mia. ",
    "cleft": "It was Mia who left, ",
    "owner": "Mia's brother's ",
    "of": "mother of ",
    "names of": "the mother of Mia Anna Lena ",
    "gave": "Mia gave Leo a book and ",
    "made of": "a wall made of stone ",
    "of numbers": "a raise of 5 % ",
    "for": "a rope for climbing ",
    "for for": "for ",
    "which is": "a dog which is black ",
    "which": "which is ",
    "work as": "Mia works at a shop as a cook. ",
    "has": "has really ",
    "has not": "does not have ",
    "do": "do very ",
    "next to": "next to ",
    "in law": "mother in law ",
    "used to": "Mia used to sail. ",
    "everything but": "everything but fish ",
    "lot of": "a lot of ",
    "little": "a little garden ",
    # plain words
    "one word": "cat ",
    "clauses": "Mia has a cat, and she likes it, ",
    "sentences": "Mia has a cat. ",
    "because": "Mia has a cat, because she likes it, which he said, although it bites, ",
    "questions": "Does Mia have a cat? ",
    "negations": "Mia has no cat, ",
    "not": "not ",
    "times": "on Monday at 5 pm ",
    "days": "Monday ",
    "adverbs": "quickly ",
    "and": "and ",
    "names": "Mia ",
    "names and": "Mia and Leo and ",
    "upper case": "MIA HAS A CAT ",
    "upper case word": "CATS",
    "long word": "cat",
    "a letter": "a",
    "letters": "x ",
    "single letters with stops": "a.",
    "letters with stops": "U.S.A. ",
    "apostrophes": "Mia's ",
    "only apostrophes": "'",
    "contracted": "don't can't I'm ",
    "opinion": "I really love my cat, ",
    "first person": "I moved to Rome and I bought a house, because I like it, and ",
    "my": "my brother and I went with my sister to my ",
    "you know": "well so and but actually ",
    "relative days": "last Friday and two weeks ago ",
    "remember": "Remember that I like tea. ",
    "in the": "in the house on the hill at the lake, ",
    "kinds": "the dog chases the animal ",
    "conditions": "if Mia comes unless Leo goes ",
    "reports": "Mia said that Leo said that ",
    "we": "we met our friends, ",
    "us": "for us and ours, ",
    "verbs of one": "I like and go to and help with ",
    "quantities joined": "3 hours and 18 minutes and ",
    "names joined": "we met Mia and Leo & ",
    "members": "the members are Mia and Leo and ",
    "composed": "composed of water and salt and ",
    "requests": "please, please remember that ",
    # numbers
    "digits": "1",
    "numbers": "1 ",
    "number words": "twenty one ",
    "hundreds": "hundred thousand ",
    "million": "million ",
    "thousands": "1,000,",
    "decimals": "1.5 ",
    "decimal run": "1.",
    "dates": "2026-05-08 ",
    "days of months": "May 3 ",
    "months": "May ",
    "clock": "17:00 ",
    "halves": "5 pm ",
    "ordinals": "3 rd ",
    "amounts": "$5 ",
    "minus": "-",
    "minus numbers": "-5",
    "codes": "aB3x ",
    "code run": "aB3",
    "case and digits": "a1B",
    "underscores": "_",
    "underscore words": "a_b_",
    # signs
    "superscripts": "10² ",
    "superscript run": "²",
    "fractions": "1½ ",
    "quotes": '"cat" ',
    "quote run": '"',
    "curly quotes": "“cat” ",
    "brackets": "(cat) ",
    "open brackets": "(",
    "nested": "(a ",
    "hyphens": "well-known-",
    "hyphen run": "-",
    "dashes": "cat — ",
    "dots": ".",
    "ellipsis": "cat... ",
    "commas": ",",
    "exclamation": "!",
    "spaces": " ",
    "spaces and letters": "   a",
    "lines": "\n",
    "list": "- cat\n",
    "numbered list": "1. cat\n",
    "tabs": "\t",
    "at": "@",
    "mail": "mia@example.org, ",
    "links": "https://example.org/a/b?c=d&e=f ",
    "slashes": "/",
    "backslashes": "\\",
    "percent": "5 % ",
    "currencies": "€",
    "plus": "+",
    "markup": "<b>cat</b> ",
    "json": '{"a": [1, 2]}, ',
    "code": "for (int i = 0; i < n; i++) { a[i] = b; }\n",
    # other scripts
    "emoji": "😀",
    "emoji words": "cat 😀 ",
    "families": "👨‍👩‍👧‍👦",
    "flags": "🇮🇳",
    "joiners": "\u200d",
    "combining": "e\u0301",
    "combining run": "\u0301",
    "combining in turn": "\u0301\u0316",
    "combining half-width": "\uff9e\u0316",
    "spanish": "La lámpara fue reparada por Mia y ",
    "spanish clauses": "Mia vive en Roma desde mayo, ",
    "spanish en": "en Roma ",
    "spanish years": "desde 2020 Mía vivió en España ",
    "french": "La lampe a été réparée par Mia et ",
    "french cleft": "C'est Mia qui chante, ",
    "french en": "Depuis mai Mia habite à Paris, ",
    "german": "Die Lampe wurde von Mia repariert und ",
    "german clauses": "In Berlin wohnt Mia mit der Katze, ",
    "german words": "Straßenbahnhaltestelle ",
    "german over": "für Mia über ",
    "italian": "Mia non è andata con gli amici della città, ",
    "russian": "Миа живёт в Москве с кошкой, ",
    "arabic": "ميا لديها قطة صغيرة ",
    "hebrew": "למיה יש חתול ",
    "hindi": "मिया के पास एक बिल्ली है ",
    "thai": "มีอามีแมว",
    "korean": "미아는 고양이를 키운다. ",
    "japanese": "ミアは猫が好きだ。",
    "japanese clauses": "ミアは猫が好きで、",
    "japanese without stops": "ミアは公園で猫と遊んでいて",
    "japanese negated": "ミアは猫が好きではなかった。",
    "japanese passive": "猫が犬に追われた。",
    "japanese counts": "女性二人が、",
    "japanese no": "猫の",
    "japanese te": "食べて",
    "hiragana": "あ",
    "hiragana past": "ました",
    "hiragana negated": "ない",
    "hiragana te": "ている",
    "hiragana particles": "には",
    "katakana": "ア",
    "katakana words": "スマートフォン",
    "half-width kana": "ｱ",
    "voiced kana": "ﾊﾞ",
    "prolonged": "ー",
    "han": "猫",
    "chinese": "米娅有一只猫。",
    "chinese clauses": "米娅有一只猫,",
    "chinese without stops": "米娅的猫在公园里",
    "han digits": "二",
    "han numbers": "二十一人",
    "han scales": "万",
    "repeated han": "々",
    "full width": "ＭＩＡ　",
    "full-width digits": "１２",
    "ligature": "ﬃ",
    # characters that stand for several: 18, 8, 6, 5, 4
    "expanding": "\ufdfa",
    "expanding words": "\ufdfa ",
    "expanding, now and then": "\ufdfaMia has a cat. ",
    "expanding to 8": "\ufdfb",
    "expanding signs": "㎯",
    "expanding kana": "㌖",
    "expanding kana to 5": "㌕ ",
    "expanding kana to 4": "㍍",
    "expanding brackets": "⒇",
    "expanding fractions": "⅒",
    "expanding numerals": "Ⅷ ",
    "expanding primes": "⁗",
    "mixed scripts": "Mia は 猫 кот 😀 ",
    "sharp s": "ß",
    "dotted": "İ",
    "controls": "\x01",
    "unseen": "\u200b",
    "tags": "\U000e0041",
}
MORE: Mapping[str, Callable[[int], str]] = {
    "base64": lambda n: _BASE64[:n],
    "base64 in lines": lambda n: "\n".join(_BASE64[i : i + 64] for i in range(0, n, 64))[:n],
    "many words": lambda n: " ".join(_WORDS)[:n],
    "many sentences": lambda n: ". ".join(map(str.capitalize, _WORDS))[:n],
    "many clauses": lambda n: ", and she likes ".join(_WORDS)[:n],
    "many names": lambda n: " ".join(map(str.capitalize, _WORDS))[:n],
    "many passives": lambda n: " ".join(
        f"The {a} was carried by {b.capitalize()}." for a, b in itertools.pairwise(_WORDS)
    )[:n],
    "many facts": lambda n: " ".join(
        f"{b.capitalize()} has a {a} in {a.capitalize()}." for a, b in itertools.pairwise(_WORDS)
    )[:n],
    "counting": lambda n: " ".join(map(str, range(n)))[:n],
    "many han": lambda n: "".join(chr(0x4E00 + i % 20_000) for i in range(n)),
    "any character": lambda n: "".join(chr(33 + i * 7 % 0xD000) for i in range(n)),
}


def text_of(shape: str, characters: int) -> str:
    """Return a text of this shape with about `characters` characters."""
    if shape in MORE:
        return MORE[shape](characters)
    unit = SHAPES[shape]
    return unit * (characters // len(unit))


def partners(text: str) -> Iterator[tuple[str, str]]:
    """Yield the name of each change of the text, and the changed text."""
    half = len(text) // 2
    middle = text.find(" ", half) + 1 or half
    yield "more at the end", text + " tabby"
    yield "more in the middle", f"{text[:middle]}tabby {text[middle:]}"
    yield "turned around", text[middle:] + text[:middle]
    yield "another at the start", "Zora " + text
    yield "another word", f"Leo {text[:middle]}blue {text[middle:]}"
    yield "a denial", "Mia has not " + text
    yield "a stop", text + "."
    yield "half", text[:middle]


@dataclass(frozen=True)
class Timing:
    """The time of one call; `stopped` is whether it took longer than the limit."""

    what: str
    shape: str
    partner: str
    characters: int
    seconds: float
    stopped: bool


class _TooLong(BaseException):
    """Raised in a call that exceeds the limit; no `except Exception` catches it."""


def timed(call: Callable[[], object], limit: float) -> tuple[float, bool]:
    """Return the CPU seconds of a call, and whether it was stopped after `limit` seconds."""

    def stop(_signal: int, _frame: FrameType | None) -> None:
        raise _TooLong

    forget()
    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, limit)
    start = time.process_time()
    try:
        call()
    except _TooLong:
        return time.process_time() - start, True
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
    return time.process_time() - start, False


_CACHES = [
    value
    for name, module in list(sys.modules.items())
    if name.startswith(("memory.text.", "memory.coverage."))
    for value in vars(module).values()
    if hasattr(value, "cache_clear") and value.cache_info().maxsize > 1
]


def forget() -> None:
    """Empty the caches of parsed texts."""
    for cache in _CACHES:
        cache.cache_clear()


def alone(text: str) -> Iterator[tuple[str, Callable[[], object]]]:
    """Yield each function that reads one text: its name, and a call of it without arguments."""
    yield "normalise", partial(normalise, text)
    yield "text_key", partial(text_key, text)
    yield "identity", partial(identity, text)
    yield "visible", partial(visible, text)
    yield "sentences", partial(sentences, text)
    yield "telling_words", partial(telling_words, text)
    yield "parse", partial(parse, text)
    yield "statements", partial(statements, text, "Mia", AT, listeners=["Leo"])
    yield "retold", partial(retold, text, "Mia", AT)
    yield "when_field", partial(when_field, text, AT)
    yield "asked_to_remember", partial(asked_to_remember, text)
    yield "only_asks_to_remember", partial(only_asks_to_remember, text)


def together(a: str, b: str) -> Iterator[tuple[str, Callable[[], object]]]:
    """Yield each function that reads two texts: its name, and a call of it without arguments."""
    yield "compare", partial(compare, a, b)
    yield "compare", partial(compare, b, a)
    yield "verify", partial(verify, a, [b])
    yield "verify", partial(verify, f"{a} {b}", [a, b])
    yield "verify, dated", partial(verify, f"{a} {b}", [a, b], [AT, LATER])
    yield "verify_by_words", partial(verify_by_words, f"{a} {b}", [a, b])
    yield "difference", partial(difference, a, b)
    yield "differs", partial(differs, a, b)
    yield "marked", partial(marked, a, [b])


def measure(
    characters: int, only: Sequence[str], shapes: Sequence[str], limit: float
) -> Iterator[Timing]:
    """Time every call on every shape, with texts of one length."""
    for shape in shapes:
        gc.collect()
        text = text_of(shape, characters)
        for what, call in alone(text):
            if not only or what in only:
                yield Timing(what, shape, "", characters, *timed(call, limit))
        for partner, other in partners(text):
            for what, call in together(text, other):
                if not only or what in only:
                    yield Timing(what, shape, partner, characters, *timed(call, limit))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--characters", type=int, nargs="+", default=[500, 2_000, 4_000, 100_000])
    parser.add_argument("--only", nargs="+", default=[], help="names of calls")
    parser.add_argument("--shapes", nargs="+", default=[*SHAPES, *MORE])
    parser.add_argument("--limit", type=float, default=3.0, help="seconds, then it is stopped")
    parser.add_argument("--slow", type=float, default=0.05, help="seconds from which one is shown")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    gc.disable()
    for characters in args.characters:
        found = list(measure(characters, args.only, args.shapes, args.limit))
        for what in dict.fromkeys(timing.what for timing in found):
            of_call = [timing for timing in found if timing.what == what]
            worst = max(of_call, key=lambda timing: timing.seconds)
            slow = {timing.shape for timing in of_call if timing.seconds > args.slow}
            if args.json:
                print(json.dumps(asdict(worst) | {"calls": len(of_call), "slow": sorted(slow)}))
            else:
                more = "+" if worst.stopped else " "
                print(
                    f"{characters:>7} {what:<22}{worst.seconds:8.3f} s{more} {len(of_call):>5} "
                    f"calls, {len(slow):>3} shapes over {args.slow} s: {worst.shape} "
                    f"({worst.partner}) {sorted(slow)[:40] if len(slow) > 1 else ''}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
