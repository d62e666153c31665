"""Write numbers in a standard form: twenty-one as 21, $5 as 5 dollars, 17:00 as 5 pm."""

from __future__ import annotations

import re
from collections.abc import Sequence

from memory.text.tokens import Kind, Token
from memory.text.vocabulary import MONTH_NAMES, MONTH_SET, SCALES, UNITS

CURRENCIES = frozenset({"dollar", "euro", "pound", "yen"})
_MEASURES = frozenset(UNITS.values())
_ISO_DATE = re.compile(r"^(\d{4})-(\d{1,2})-(\d{1,2})$")
_HOUR = re.compile(r"\d{1,2}").fullmatch
_CLOCK = re.compile(r"^(\d{1,2}):(\d{2})$")
_ORDINAL_ENDINGS = frozenset({"st", "nd", "rd", "th"})
_HALVES = frozenset({"am", "pm"})
_HAN_SCALES = frozenset("百千万萬億亿")
_GROWING = _ORDINAL_ENDINGS | _HALVES | {"and"}


def with_numbers_joined(tokens: Sequence[Token]) -> list[Token]:
    """Return the tokens with each number, date, time and amount in a standard form and order.

    "twenty one" becomes one token 21, "$5" becomes 5 and dollar, "3 May" becomes May and day 3.

    >>> from memory.text import tokens
    >>> [token.key for token in with_numbers_joined(tokens("It cost $5 on 3 May."))]
    ['it', 'cost', '5', 'dollar', 'on', 'may', 'day 3', '']
    """
    joined: list[Token] = []
    position = 0
    for start, token in enumerate(tokens):
        kind = token[1]
        if start < position or (kind is not Kind.NUMBER and kind is not Kind.SCALE):
            continue
        amount = position < start and kind is Kind.NUMBER and tokens[start - 1].key in CURRENCIES
        joined += tokens[position : start - amount]
        found, position = _number(tokens, start)
        joined += found
        if amount:
            joined.append(tokens[start - 1])
    joined += tokens[position:]
    return joined if MONTH_SET.isdisjoint(token[0] for token in joined) else _dated(joined)


def _number(tokens: Sequence[Token], start: int) -> tuple[list[Token], int]:
    first = tokens[start]
    position = start + 1
    following, kind = tokens[position][:2] if position < len(tokens) else ("", "")
    plain = first.key.isdecimal() and first.key[0] != "0" and following not in _GROWING
    if plain and kind is not Kind.NUMBER and kind is not Kind.SCALE:
        return [first], position
    if following in _ORDINAL_ENDINGS:
        return [_made(f"{first.key}.", tokens[start : position + 1])], position + 1
    if first.kind is Kind.NUMBER and (found := _moment(first, following)):
        return found, position + (following in _HALVES)
    value = _value(first)
    if value is None or _is_version(tokens, start) or _ends_a_range(tokens, start):
        return [first], position
    total, position = _sum(tokens, start, value)
    return [
        _made(str(int(total)) if total.is_integer() else repr(total), tokens[start:position])
    ], position


def _made(key: str, of: Sequence[Token]) -> Token:
    return Token(key, Kind.NUMBER, " ".join(token.surface for token in of if token.surface))


def _value(token: Token) -> float | None:
    if token.kind is Kind.SCALE:
        return float(SCALES[token.key])
    is_code = token.key.isdecimal() and token.key[0] == "0" and len(token.key) > 1  # 0042
    if is_code or len(token.key) > _MOST_DIGITS or not _PLAIN_NUMBER(token.key):
        return None
    return float(token.key)


_PLAIN_NUMBER = re.compile(r"-?\d+(?:\.\d+)?").fullmatch
_MOST_DIGITS = 15
"""Longer numbers are compared as they are written, because a float would round them."""


def _is_version(tokens: Sequence[Token], start: int) -> bool:
    """Return whether the number at `start` may be a version such as 3.10, which is not 3.1."""
    key, after = tokens[start].key, tokens[start + 1 : start + 2]
    counts = after and (after[0].key in _MEASURES or after[0].kind is Kind.SCALE)
    is_amount = start > 0 and tokens[start - 1].key in CURRENCIES
    return key.endswith("0") and "." in key and not is_amount and not counts


def _ends_a_range(tokens: Sequence[Token], start: int) -> bool:
    """Return whether a scale after this number may count for a number before it: 10 to 12 million.

    Such a range is compared as it is written.
    """
    after = tokens[start + 1 : start + 2]
    scaled = after and (after[0].kind is Kind.SCALE or after[0].surface in _HAN_SCALES)
    return bool(scaled) and any(
        token.kind is Kind.NUMBER for token in tokens[max(0, start - 2) : start]
    )


def _sum(tokens: Sequence[Token], start: int, first: float) -> tuple[float, int]:
    total, part, position = 0.0, first, start + 1
    in_words = not tokens[start].surface[:1].isdigit()
    while position < len(tokens):
        token = tokens[position]
        joined = token.key == "and" and position + 1 < len(tokens)
        if token.kind is Kind.SCALE and SCALES[token.key] > 100 and part:
            total, part = total + part * SCALES[token.key], 0.0
        elif token.kind is Kind.SCALE:
            part *= SCALES[token.key]
        elif token.kind is Kind.NUMBER and token.surface in _HAN_SCALES:  # 12万
            part *= float(token.key)
        elif in_words and _continues(total, part, tokens[position + joined]):
            part += float(tokens[position + joined].key)
            position += joined
        else:
            break
        position += 1
    return total + part, position


def _continues(total: float, part: float, token: Token) -> bool:
    """Return whether `token` continues a number: "one" continues "twenty", but "ten" does not.

    `total` and `part`: the value read so far. After "two thousand twenty", they are 2000 and 20.
    """
    value = _value(token) if token.kind is Kind.NUMBER else None
    if value is None or value < 1 or token.surface[:1].isdigit():
        return False
    if part == 0.0:
        return total > 0.0
    rest = part % 100
    return (rest == 0.0 and value < 100) or (rest >= 20 and rest % 10 == 0 and value < 10)


def _moment(first: Token, following: str) -> list[Token]:
    date = _ISO_DATE.match(first.key)
    if date and 1 <= int(date[2]) <= 12:
        month, day = MONTH_NAMES[int(date[2]) - 1], str(int(date[3]))
        return [
            Token(month, Kind.CONTENT, first.surface),
            Token(f"day {day}", Kind.NUMBER, first.surface),
            Token(date[1], Kind.NUMBER, first.surface),
        ]
    clock = _CLOCK.match(first.key)
    if clock is None and not (following in _HALVES and _HOUR(first.key)):
        return []
    hour, minute = (int(clock[1]), clock[2]) if clock else (int(first.key), "00")
    half = following if following in _HALVES else ""
    if half == "pm" and hour < 12:
        hour, half = hour + 12, ""
    elif half == "am" and hour == 12:  # midnight
        hour, half = 0, ""
    surface = f"{first.surface} {following}" if following in _HALVES else first.surface
    return [Token(f"at {hour}:{minute} {half}".strip(), Kind.NUMBER, surface)]


def _dated(tokens: list[Token]) -> list[Token]:
    for position, token in enumerate(tokens):
        if token.key in MONTH_SET and token.kind is Kind.CONTENT:
            _name_day(tokens, position)
    return [token for token in tokens if token is not _GONE]


_GONE = Token("", Kind.FILLER, "")


def _name_day(tokens: list[Token], month: int) -> None:
    after = next((n for n in range(month + 1, min(month + 3, len(tokens))) if _day(tokens[n])), 0)
    if after and all(tokens[n].kind is Kind.FILLER for n in range(month + 1, after)):
        tokens[after] = _as_day(tokens[after])
        return
    before = next((n for n in (month - 1, month - 2) if n >= 0 and _day(tokens[n])), None)
    if before is not None:
        gone = [_GONE] * (month - before - 1)
        tokens[before : month + 1] = [tokens[month], _as_day(tokens[before]), *gone]


def _day(token: Token) -> str:
    number = token.key.removesuffix(".")
    fits = len(number) <= 2 and number.isdecimal() and 1 <= int(number) <= 31
    return number if fits and token.kind in (Kind.NUMBER, Kind.CONTENT) else ""


def _as_day(token: Token) -> Token:
    return Token(f"day {_day(token)}", Kind.NUMBER, token.surface)
