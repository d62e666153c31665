"""Tokenise Japanese with a dictionary, SudachiPy, which is an optional extra.

Words get their dictionary form: 遊んで becomes 遊ぶ, and 二人 becomes 2人.

Particles, and endings that change the statement, become separate tokens.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

from memory.text import COUNTERS, NOT, SAME_IN_JAPANESE, Kind, Token, han_value, unified, word_token

if TYPE_CHECKING:
    from sudachipy import Morpheme, Tokenizer

_LONGEST = 12_000  # characters; the dictionary fails at about 16,000


def japanese_tokens(text: str) -> list[Token] | None:
    """Return the tokens of a Japanese text as the dictionary divides it.

    Return None if no dictionary is installed, or if the text is too long for it.
    """
    tokenizer = _tokenizer()
    if tokenizer is None or len(text) > _LONGEST:
        return None
    tokens: list[Token] = []
    follows_noun = False
    for morpheme in tokenizer.tokenize(unified(text)):
        _read(morpheme, tokens, follows_noun=follows_noun)
        follows_noun = morpheme.part_of_speech()[0] in _NOUNS
    return tokens


@lru_cache(maxsize=1)
def _tokenizer() -> Tokenizer | None:
    try:
        from sudachipy import Dictionary, SplitMode

        return Dictionary().tokenizer(SplitMode.C)
    except ImportError:  # the package, or its dictionary, is not installed
        return None


# --- words ----------------------------------------------------------------------------------------

_NOUNS = frozenset({"名詞", "代名詞", "接尾辞"})
_NEGATING = frozenset({"ない", "ぬ", "ず", "無い", "まい"})
_CONTRACTED = {"てる": "ている", "でる": "ている"}
_SILENT_ENDINGS = frozenset({"だ", "です", "ます", "である"})
_HONORIFICS = frozenset({"さん", "様", "氏", "君", "ちゃん", "達", "ら", "御", "お"})
_SUBJECT = {"が": "は", "へ": "に"}
_CASES = dict.fromkeys(
    ("格助詞", "係助詞"), frozenset("が を に へ で と から より まで の や は も".split())
) | {"副助詞": frozenset({"や", "まで"})}
_SILENT_PARTICLES = frozenset("よ ね わ な ぞ さ".split())
_NUMBER = re.compile(r"^([0-9]+|[〇零一二三四五六七八九十百千万億]+)(.*)$")
_POTENTIAL = re.compile("[えけげせてねべめれ]る$")


def _read(morpheme: Morpheme, tokens: list[Token], *, follows_noun: bool) -> None:
    word, key = morpheme.surface(), morpheme.normalized_form()
    kind, detail, *_, form = morpheme.part_of_speech()
    if kind in ("補助記号", "空白", "記号"):
        if word.strip() and word not in "・「」『』":
            tokens.append(Token("", Kind.STOP, word))
    elif word.isascii() and word.isalpha():
        tokens.append(word_token(word)._replace(participle=False))
    elif kind == "助詞":
        _particle(word, detail, tokens)
    elif key == "若し":
        tokens.append(Token(key, Kind.FILLER, word))
    elif kind == "助動詞" or (kind == "形容詞" and key == "無い"):
        _ending(word, key, form, tokens)
    elif kind == "動詞":
        _verb(morpheme, tokens, follows_noun=follows_noun)
    elif (kind == "接尾辞" or kind == "接頭辞") and key in _HONORIFICS:
        tokens.append(Token(key, Kind.FILLER, word))
    else:  # あまりに is not あまり
        tokens.append(_content(word, word if kind == "副詞" else key))


def _content(word: str, key: str) -> Token:
    number = _NUMBER.match(key)
    if number is None or (number[2] and number[2][0] not in COUNTERS):
        return Token(SAME_IN_JAPANESE.get(key, key), Kind.CONTENT, word)
    value = han_value(number[1]) if not number[1].isdigit() else number[1].lstrip("0") or "0"
    return Token(value + number[2], Kind.NUMBER, word)


def _particle(word: str, detail: str, tokens: list[Token]) -> None:
    before = tokens[-1] if tokens else None
    if word in _CASES.get(detail, ()):
        if before is None or before.kind is not Kind.PARTICLE:
            tokens.append(Token(_SUBJECT.get(word, word), Kind.PARTICLE, word))
        elif word not in ("は", "の"):
            both = before.key + word
            tokens[-1] = Token(both, Kind.PARTICLE, both)
    elif detail == "接続助詞" and word in ("て", "で"):
        tokens.append(Token("て", Kind.PARTICLE, word))
    elif word in _SILENT_PARTICLES or detail in ("終助詞", "準体助詞"):
        tokens.append(Token(word, Kind.TURNING if word == "か" else Kind.FILLER, word))
    else:
        tokens.append(Token(word, Kind.TURNING, word))


def _ending(word: str, key: str, form: str, tokens: list[Token]) -> None:
    conditional = form.startswith("仮定形")
    if word == "まい" or form.startswith("意志推量形"):  # 行くまい, 行くだろう
        tokens.append(Token(word, Kind.TURNING, word))
    elif key in _NEGATING:
        tokens.append(Token(NOT, Kind.NOT, word))
    elif key in _SILENT_ENDINGS:
        tokens.append(Token(f"{key}ば", Kind.TURNING if conditional else Kind.FILLER, word))
    else:
        tokens.append(
            Token(f"{key}ば" if conditional else _CONTRACTED.get(key, key), Kind.TURNING, word)
        )


def _verb(morpheme: Morpheme, tokens: list[Token], *, follows_noun: bool) -> None:
    word, key, plain = morpheme.surface(), morpheme.normalized_form(), morpheme.dictionary_form()
    _, detail, *_, form = morpheme.part_of_speech()
    before = tokens[-1] if tokens else None
    if detail == "非自立可能" and before is not None:
        if key == "有る" and before.kind is Kind.FILLER and before.surface == "で":
            tokens[-1] = Token("だ", Kind.FILLER, word)
            return  # である is だ; てある is what was done and lasts
        if key in ("居る", "有る") and before.surface in ("て", "で"):
            tokens[-1] = Token("ている" if key == "居る" else "てある", Kind.TURNING, word)
            return
        if key == "為る" and follows_noun:
            tokens.append(Token(key, Kind.FILLER, word, participle=True))
            _mood(form, word, tokens)
            return
    tokens.append(Token(key, Kind.CONTENT, word, participle=True))
    if len(plain) == len(key) + 1 and _POTENTIAL.search(plain):
        tokens.append(Token("可能", Kind.TURNING, word))
    _mood(form, word, tokens)


def _mood(form: str, word: str, tokens: list[Token]) -> None:
    if form.startswith(("意志推量形", "命令形", "仮定形")):
        tokens.append(Token(form[:2], Kind.TURNING, word))
