"""Rewrite different wordings of one meaning to a standard form, for comparison word by word."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from memory.text import (
    AUXILIARIES,
    BE,
    NOT,
    RELATIONAL,
    SAME_AS,
    WAS,
    WHICH,
    Kind,
    Token,
    is_name,
)


def reworded(tokens: list[Token], keys: set[str], *, owns: bool) -> list[Token]:
    """Rewrite every known wording of an English text to its standard form.

    `keys` must hold the keys of all `tokens`; both may be changed in place. `owns`: whether the
    text contains any apostrophe. If it does, "have" is added after each word that ends in "'s" or
    "s'", such as "Mia's".
    """
    if owns:
        tokens = [part for token in tokens for part in _with_have(token)]
        keys.add("have")
    triggers = keys & _TRIGGERS
    for needed, undo in _REWORDINGS:
        if not triggers.isdisjoint(needed):
            tokens = undo(tokens)
    return tokens


def _with_have(token: Token) -> list[Token]:
    if token.kind is not Kind.CONTENT or token.surface[-2:] not in ("'s", "’s", "s'", "s’"):
        return [token]
    return [token, Token("have", Kind.CONTENT, token.surface[-2:])]


def _end(tokens: Sequence[Token], start: int, fits: Callable[[Token], bool]) -> int:
    return next((n for n in range(start, len(tokens)) if not fits(tokens[n])), len(tokens))


def _is_content(token: Token) -> bool:
    return token.kind is Kind.CONTENT


_ALL = [*"all every everything everyone everybody anything anyone anybody".split(), NOT]
_GREAT_KIN = (
    "grandmother grandfather grandparent grandson granddaughter grandchild aunt uncle nephew "
    "niece".split()
)
_NEAR = (SAME_AS["near"], Kind.CONTENT), ("", Kind.FILLER)
_USED_TO = ("used to", Kind.TURNING), ("", Kind.FILLER)
_PAIRS: Mapping[tuple[str, str], tuple[tuple[str, str], tuple[str, str]]] = {
    ("a", "few"): (("", ""), ("several", "")),  # few friends are not several
    ("lot", "of"): ((SAME_AS["many"], ""), ("", Kind.FILLER)),
    ("next", "to"): _NEAR,
    ("close", "to"): _NEAR,
    ("used", "to"): _USED_TO,
    ("use", "to"): _USED_TO,
    ("been", "to"): (("", Kind.CONTENT), ("", "")),  # who has been to Peru is back
    ("in", "law"): (("in law", Kind.TURNING), ("", Kind.FILLER)),  # no mother: a mother-in-law
    **{(word, "but"): (("", ""), ("except", Kind.TURNING)) for word in _ALL},
    **{("great", kin): (("", ""), (f"great {kin}", "")) for kin in _GREAT_KIN},
}
"""Pairs of adjacent words that mean something else together, such as "a few".

The keys of the two words are mapped to a new (key, kind) for the first word, and a new (key, kind)
for the second. An empty key or kind means that the old one stays.
"""


def _pairs_read_as_one(tokens: list[Token]) -> list[Token]:
    for n in range(len(tokens) - 1):
        changes = _PAIRS.get((tokens[n].key, tokens[n + 1].key), ())
        for position, (key, kind) in enumerate(changes, start=n):
            token = tokens[position]
            tokens[position] = token._replace(key=key or token.key, kind=kind or token.kind)
    return tokens


_DETERMINERS = frozenset("a an the this that these those its such own".split())


def _without_auxiliaries(tokens: list[Token]) -> list[Token]:
    """Mark auxiliary verbs as fillers: "has" in "has adopted", not in "has a doctor"."""
    for position, token in enumerate(tokens):
        if token.key in AUXILIARIES:
            after = _end(tokens, position + 1, _may_stand_between)
            helps = (
                after < len(tokens) and (tokens[after].participle or tokens[after].key == "been")
                if token.key == "have"
                else any(between.kind is Kind.NOT for between in tokens[position + 1 : after])
            )
            if helps:
                tokens[position] = token._replace(kind=Kind.FILLER)
    return tokens


def _may_stand_between(token: Token) -> bool:
    if token.kind is Kind.FILLER:
        return token.key not in _DETERMINERS and token.key != "been"
    return token.kind is Kind.NOT or token.surface.endswith("ly")


# --- the passive ----------------------------------------------------------------------------------


_FORMS_OF_BE = BE | WAS


def _in_active_voice(tokens: list[Token]) -> list[Token]:
    """Rewrite "The ball was thrown by Mia" as "Mia threw the ball".

    The rewritten list begins with the token `PASSIVE`. If no passive with "by" is found, `tokens`
    is returned unchanged.
    """
    for be in (n for n, token in enumerate(tokens) if token.key in _FORMS_OF_BE):
        verb = _end(tokens, be + 1, lambda after: after.kind is Kind.FILLER)
        if verb < len(tokens) and tokens[verb].participle:
            break
    else:
        return tokens
    by = _end(tokens, verb + 1, lambda token: token.key != "by")
    if by == len(tokens):  # was engaged is not is engaged; was hired is not hired
        return tokens
    passed = tokens[be].key in WAS
    progressive = any(token.key == "being" for token in tokens[be:verb])
    doing = [
        Token(
            tokens[verb].key,
            Kind.CONTENT,
            tokens[verb].surface + ("ing" if progressive else ""),
            passed and not progressive,
        )
    ]
    start = max((n + 1 for n in range(be) if tokens[n].kind is Kind.STOP), default=0)
    end = _end(tokens, by, lambda token: token.kind is not Kind.STOP)
    done, middle = tokens[start : be + (passed and progressive)], tokens[verb + 1 : by]
    if [token.kind for token in middle] == [Kind.GOVERNING]:  # the hat was put on by Mia
        doing, middle = doing + middle, []
    return [PASSIVE, *tokens[:start], *tokens[by + 1 : end], *doing, *done, *middle, *tokens[end:]]


PASSIVE = Token("", Kind.FILLER, "")


# --- noun phrases in one order: the owner, the material, the purpose, the quality first ----------


def _owner_first(tokens: list[Token]) -> list[Token]:
    """Rewrite "the mother of Mia" as "Mia's mother"."""
    position = 1
    while position < len(tokens) - 1:
        if tokens[position].key == "of" and tokens[position - 1].key in _RELATIONAL:
            end = _end_of_owner(tokens, position + 1)
            start = next(
                (n for n in range(position - 1, 0, -1) if not _is_content(tokens[n - 1])), 0
            )
            if end > position + 1:
                owner = tokens[position + 1 : end]
                chain = any(token.key == "have" for token in owner)
                have = [] if chain else [Token("have", Kind.CONTENT, "of")]
                tokens[start:end] = [*owner, *have, *tokens[start:position]]
                position = end
        position += 1
    return tokens


_RELATIONAL = frozenset(SAME_AS.get(word, word) for word in RELATIONAL)


def _end_of_owner(tokens: Sequence[Token], start: int) -> int:
    end = _end(tokens, start, is_name)
    if start < end < len(tokens) and tokens[end].key == "have":
        return _end(tokens, end + 1, _is_content)
    return end


def _qualities_first(tokens: list[Token]) -> list[Token]:
    position = 1
    while position < len(tokens) - 2:
        if tokens[position].key in WHICH and tokens[position + 1].key in BE:
            head = position - 1
            end = _end_of_qualities(tokens, position + 2)
            if head >= 0 and tokens[head].kind is Kind.CONTENT and end > position + 2:
                qualities = [t for t in tokens[position + 2 : end] if t.kind is Kind.CONTENT]
                after = end + (end < len(tokens) and tokens[end].kind is Kind.STOP)
                start = _start_of_noun(tokens, head)
                tokens[start:after] = [*qualities, *tokens[start : head + 1]]
        position += 1
    return tokens


def _start_of_noun(tokens: Sequence[Token], head: int) -> int:
    start = next((n for n in range(head, 0, -1) if not _is_content(tokens[n - 1])), 0)
    return start if start and tokens[start - 1].key in ("a", "an", "the") else head


def _end_of_qualities(tokens: Sequence[Token], start: int) -> int:
    end = start
    while end < len(tokens) and (
        tokens[end].kind is Kind.CONTENT
        or (tokens[end].key in ("and", "very") and end + 1 < len(tokens))
    ):
        end += 1
    if end == len(tokens) or tokens[end].kind is Kind.STOP or tokens[end].key in BE:
        return end - (tokens[end - 1].key == "and")
    return start


# --- all of them ----------------------------------------------------------------------------------

_REWORDINGS: tuple[tuple[frozenset[str], Callable[[list[Token]], list[Token]]], ...] = (
    (frozenset(second for _, second in _PAIRS), _pairs_read_as_one),
    (AUXILIARIES, _without_auxiliaries),
    (WHICH, _qualities_first),
    (frozenset({"of"}), _owner_first),
    (BE | WAS, _in_active_voice),
)
_TRIGGERS = frozenset[str]().union(*(triggers for triggers, _ in _REWORDINGS))
