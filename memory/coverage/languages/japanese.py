"""Japanese by a dictionary: SudachiPy, an extra; without it kana and Han are read by themselves.

Words stand in their normal form (遊んで is 遊ぶ, 二人 is 2人); what turns a statement around
(negation, voice, tense, aspect, modality, conditions) and the particles keep a token of their own.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from memory.text import COUNTERS, NOT, SAME_IN_JAPANESE, Kind, Token, han_value, unified, word_token

if TYPE_CHECKING:
    from sudachipy import Morpheme, Tokenizer

_LONGEST = 12_000
"""Characters that are read at once; the dictionary refuses some 16,000."""


class Piece(NamedTuple):
    """A token and what it is in a sentence."""

    token: Token
    noun: bool = False
    verb: bool = False


def japanese_tokens(text: str) -> list[Token] | None:
    """The tokens of a Japanese text; None where no dictionary is installed, or for documents."""
    told = _pieces(text)
    return None if told is None else [piece.token for piece in told]


@lru_cache(maxsize=4_096)
def _pieces(text: str) -> Sequence[Piece] | None:
    tokenizer = _tokenizer()
    if tokenizer is None or len(text) > _LONGEST:
        return None
    pieces: list[Piece] = []
    for morpheme in tokenizer.tokenize(unified(text)):
        _read(morpheme, pieces)
    return pieces


@lru_cache(maxsize=1)
def _tokenizer() -> Tokenizer | None:
    try:
        from sudachipy import Dictionary, SplitMode

        return Dictionary().tokenizer(SplitMode.C)
    except ImportError:  # the package, or its dictionary, is not installed
        return None


# --- words ----------------------------------------------------------------------------------------

_NEGATING = frozenset({"ない", "ぬ", "ず", "無い", "まい"})
_CONTRACTED = {"てる": "ている", "でる": "ている"}
_SILENT_ENDINGS = frozenset({"だ", "です", "ます", "である"})
_HONORIFICS = frozenset({"さん", "様", "氏", "君", "ちゃん", "達", "ら", "御", "お"})
_SUBJECT = {"が": "は", "へ": "に"}
_CASES = frozenset("が を に へ で と から より まで の や は も".split())
_SILENT_PARTICLES = frozenset("よ ね わ な ぞ さ".split())
_NUMBER = re.compile(r"^([0-9]+|[〇零一二三四五六七八九十百千万億]+)(.*)$")
_POTENTIAL = re.compile("[えけげせてねべめれ]る$")


def _read(morpheme: Morpheme, pieces: list[Piece]) -> None:
    word, key = morpheme.surface(), morpheme.normalized_form()
    kind, detail, *_, form = morpheme.part_of_speech()
    if kind in ("補助記号", "空白", "記号"):
        if word.strip() and word not in "・「」『』":
            pieces.append(Piece(Token("", Kind.STOP, word)))
    elif word.isascii() and word.isalpha():
        token = word_token(word)
        pieces.append(Piece(token, noun=token.kind is Kind.CONTENT))
    elif kind == "助詞":
        _particle(word, detail, pieces)
    elif key == "若し":
        pieces.append(Piece(Token(key, Kind.FILLER, word)))
    elif kind == "助動詞" or (kind == "形容詞" and key == "無い"):
        _ending(word, key, form, pieces)
    elif kind == "動詞":
        _verb(morpheme, pieces)
    elif (kind == "接尾辞" or kind == "接頭辞") and key in _HONORIFICS:
        pieces.append(Piece(Token(key, Kind.FILLER, word)))
    else:
        noun = kind in ("名詞", "代名詞", "接尾辞")
        pieces.append(Piece(_content(word, key), noun))


def _content(word: str, key: str) -> Token:
    number = _NUMBER.match(key)
    if number is None or (number[2] and number[2][0] not in COUNTERS):
        return Token(SAME_IN_JAPANESE.get(key, key), Kind.CONTENT, word)
    value = han_value(number[1]) if not number[1].isdigit() else number[1].lstrip("0") or "0"
    return Token(value + number[2], Kind.NUMBER, word)


def _particle(word: str, detail: str, pieces: list[Piece]) -> None:
    if detail in ("格助詞", "係助詞") and word in _CASES:
        _case(word, pieces)
    elif detail == "接続助詞" and word in ("て", "で"):
        pieces.append(Piece(Token("て", Kind.PARTICLE, word)))
    elif word in _SILENT_PARTICLES or detail in ("終助詞", "準体助詞"):
        asks = word == "か"
        pieces.append(Piece(Token(word, Kind.TURNING if asks else Kind.FILLER, word)))
    elif detail == "副助詞" and word in ("や", "まで"):
        _case(word, pieces)
    else:
        pieces.append(Piece(Token(word, Kind.TURNING, word)))


def _case(word: str, pieces: list[Piece]) -> None:
    """A particle, in one with the one before it: には is に, にも is both, までに is itself."""
    before = pieces[-1].token if pieces else None
    if before is None or before.kind is not Kind.PARTICLE:
        pieces.append(Piece(Token(_SUBJECT.get(word, word), Kind.PARTICLE, word)))
    elif word not in ("は", "の"):
        both = before.key + word
        pieces[-1] = Piece(Token(both, Kind.PARTICLE, both))


def _ending(word: str, key: str, form: str, pieces: list[Piece]) -> None:
    if key in _NEGATING:
        pieces.append(Piece(Token(NOT, Kind.NOT, word)))
    elif key in _SILENT_ENDINGS:
        kind = Kind.TURNING if form.startswith("仮定形") else Kind.FILLER
        pieces.append(Piece(Token(f"{key}ば", kind, word)))
    else:
        told = f"{key}ば" if form.startswith("仮定形") else _CONTRACTED.get(key, key)
        pieces.append(Piece(Token(told, Kind.TURNING, word)))


def _verb(morpheme: Morpheme, pieces: list[Piece]) -> None:
    word, key, plain = morpheme.surface(), morpheme.normalized_form(), morpheme.dictionary_form()
    _, detail, *_, form = morpheme.part_of_speech()
    before = pieces[-1] if pieces else None
    if detail == "非自立可能" and before is not None:
        if key == "有る" and before.token.kind is Kind.FILLER and before.token.surface == "で":
            pieces[-1] = Piece(Token("だ", Kind.FILLER, word))
            return  # である is だ; てある is what was done and lasts
        if key in ("居る", "有る") and before.token.surface in ("て", "で"):
            token = Token("ている" if key == "居る" else "てある", Kind.TURNING, word)
            pieces[-1] = Piece(token)
            return
        if key == "為る" and before.noun:
            pieces.append(Piece(Token(key, Kind.FILLER, word), verb=True))
            _mood(form, word, pieces)
            return
    pieces.append(Piece(Token(key, Kind.CONTENT, word), verb=True))
    if len(plain) == len(key) + 1 and _POTENTIAL.search(plain):
        pieces.append(Piece(Token("可能", Kind.TURNING, word)))
    _mood(form, word, pieces)


def _mood(form: str, word: str, pieces: list[Piece]) -> None:
    """Let us, do, if it did: forms of the verb itself."""
    if form.startswith(("意志推量形", "命令形", "仮定形")):
        pieces.append(Piece(Token(form[:2], Kind.TURNING, word)))


# --- additions ------------------------------------------------------------------------------------


class Phrase(NamedTuple):
    """Words up to their particle, each with the particle that joins it to the next."""

    words: tuple[tuple[str, str], ...]
    role: str
    has_verb: bool


_PLAIN_ENDINGS = frozenset({"た", "ている", "てある"})
_ADJUNCTS = frozenset({"で", "に", "から", "まで"})
_MANNERS = frozenset(
    "ゆっくり のんびり しっかり ぼんやり はっきり じっくり こっそり にっこり ぐっすり".split()
)
"""Adverbs that say how, and nothing else."""
_MOVING = frozenset("泳ぐ 歩く 走る 飛ぶ 滑る 進む 散歩 移動 駆ける".split())
"""What somebody does along a way, which を may name."""
_PLACES = frozenset({"上", "中", "中央", "内"})
_SCOPE = frozenset(
    "全て 全部 全員 皆 各 毎 殆ど 余り 滅多に 多く 多い 少ない 少し 多分 "
    "屹度 恐らく 若し 場合 予定 積もり 筈 可能性 模様 様 噂 話 夢 計画 希望 "
    "目標 前 以前 後 最も 一番 唯一 最 初 次 第 別 同じ 違う 誰 何 何れ "
    "偽物 偽 自称 元 仮 架空 候補 玩具 見習い 志望 疑い 代わり 外 除く 限る "
    "因る 拠る 取る 対する 比べる 因り 決して 必ず 何時も 常に 全く 絶対 禁止 "
    "拒否 拒む 避ける 嫌い 嫌う 止める 恐れる 恐れ 思う 言う 聞く 考える "
    "信じる 願う 望む 伝える 述べる 話す 語る 発表 報告 程 位 丁度 以上 以下 "
    "以内 未満 約 半分 半 殆 一部 殆んど 大半 大部分".split()
)
"""Words under which an addition is none, in their normal form."""


def only_adds(longer: str, shorter: str) -> bool:
    """Whether the longer says what the shorter says, and more beside it, in a plain statement.

    More is a quality, a count, an owner or a clause before a noun, a phrase of place, time or
    means, or something done before. The predicate is the same, and every phrase of the shorter
    stands in the longer under its particle. False where no dictionary is installed.
    """
    whole, part = _pieces(longer), _pieces(shorter)
    if whole is None or part is None or not (_is_plain(whole) and _is_plain(part)):
        return False
    phrases, rest = _phrases(whole), _phrases(part)
    if not phrases or not rest or _unhurried(phrases[-1]) != _unhurried(rest[-1]):
        return False
    matched = _matched(phrases[:-1], rest[:-1])
    return matched is not None and all(
        _only_adds(phrases, place, matched) for place in range(len(phrases) - 1)
    )


def _matched(longer: Sequence[Phrase], shorter: Sequence[Phrase]) -> list[Phrase | None] | None:
    """For each phrase what it stands for in the shorter; None where one of those is left."""
    left = list(shorter)
    found: list[Phrase | None] = []
    for phrase in longer:
        first = next((one for one in left if one.role == phrase.role), None)
        if first is not None and _is_more_of(phrase, first):
            left.remove(first)
            found.append(first)
        else:
            found.append(None)
    return None if left else found


def _only_adds(phrases: Sequence[Phrase], place: int, matched: Sequence[Phrase | None]) -> bool:
    """Whether what a phrase has more belongs to it, or to a clause that is all added."""
    phrase, same = phrases[place], matched[place]
    if same is not None:
        if place and phrase.has_verb and not same.has_verb and matched[place - 1] is not None:
            return phrases[place - 1].role == "は"
        return True
    if phrase.role == "て":
        return True
    other = matched[place + 1] if place + 1 < len(matched) else None
    if phrases[place + 1].has_verb and other is not None and not other.has_verb:
        return phrase.role != "は"
    moves = phrases[place + 1].role == "" and phrases[place + 1].words[0][0] in _MOVING
    along = phrase.role == "を" and moves and not any(one.role == "を" for one in matched if one)
    return (along or phrase.role in _ADJUNCTS) and not phrase.has_verb


def _is_plain(pieces: Sequence[Piece]) -> bool:
    return not any(
        piece.token.kind is Kind.NOT
        or (piece.token.kind is Kind.TURNING and piece.token.key not in _PLAIN_ENDINGS)
        or piece.token.key in _SCOPE
        for piece in pieces
    )


def _phrases(pieces: Sequence[Piece]) -> list[Phrase]:
    found: list[Phrase] = []
    words: list[tuple[str, str]] = []
    has_verb = False
    for piece in pieces:
        token = piece.token
        if token.kind in (Kind.CONTENT, Kind.NUMBER, Kind.TURNING):
            words.append((token.key, ""))
            has_verb = has_verb or piece.verb or token.kind is Kind.TURNING
        elif token.kind is Kind.PARTICLE and words:
            words[-1] = (words[-1][0], token.key)
            if token.key not in ("の", "と", "や"):
                found.append(Phrase(tuple(words), token.key, has_verb))
                words, has_verb = [], False
    return [*found, Phrase(tuple(words), "", has_verb)] if words else found


def _is_more_of(longer: Phrase, shorter: Phrase) -> bool:
    """Whether it is the same phrase, or the same thing with more before it.

    More is a quality, a count, an owner, or what it does: 歌っている姉 is 姉.
    """
    if longer == shorter:
        return True
    if longer.role != shorter.role or (longer.has_verb and shorter.has_verb):
        return False
    words = longer.words
    if any(role in ("と", "や") for _, role in words) or _is_of_another(words, shorter.words):
        return False
    if _holds(words, shorter.words):
        return True
    if words[-1][0] in _PLACES and len(words) > 1 and words[-2][1] == "の":
        return _holds((*words[:-2], (words[-2][0], longer.role)), shorter.words)
    return False


def _is_of_another(words: Sequence[tuple[str, str]], others: Sequence[tuple[str, str]]) -> bool:
    """Whether an owner is left out behind another: レオの兄の犬 is not レオの犬."""
    kept = set(others)
    owns = [(word in kept, word[1] == "の") for word in words]
    return ((True, True), (False, True)) in pairwise(owns)


def _unhurried(phrase: Phrase) -> Sequence[tuple[str, str]]:
    """Its words without those that say how: they may be more, or fewer."""
    return [word for word in phrase.words if word[0] not in _MANNERS]


def _holds(words: Sequence[tuple[str, str]], shorter: Sequence[tuple[str, str]]) -> bool:
    """Whether the shorter are among the words, in order, and end as they do."""
    rest = iter(words)
    return words[-1] == shorter[-1] and all(any(word == one for one in rest) for word in shorter)
