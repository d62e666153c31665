"""Tokenise Japanese with a dictionary, SudachiPy, which is an optional extra.

Words get their dictionary form: 遊んで becomes 遊ぶ, and 二人 becomes 2人.

Particles, and endings that change the statement, become separate tokens.
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
    else:
        tokens.append(_content(word, key))


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
    if key in _NEGATING:
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


# --- additions ------------------------------------------------------------------------------------


class Phrase(NamedTuple):
    """A phrase of a Japanese sentence.

    `words`: pairs of a word and the particle after the word; the particle is "" if there is none.
    `role`: the particle after the whole phrase; "" for the predicate. `has_verb`: whether the
    phrase contains a verb, or an ending such as た.
    """

    words: tuple[tuple[str, str], ...]
    role: str
    has_verb: bool


_PLAIN_ENDINGS = frozenset({"た", "ている", "てある"})
_ADJUNCTS = frozenset({"で", "に", "から", "まで"})
_MANNERS = frozenset(
    "ゆっくり のんびり しっかり ぼんやり はっきり じっくり こっそり にっこり ぐっすり".split()
)
_MOVING = frozenset("泳ぐ 歩く 走る 飛ぶ 滑る 進む 散歩 移動 駆ける".split())
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


def only_adds(longer: Sequence[Token], shorter: Sequence[Token]) -> bool:
    """Return whether a longer statement states all that a shorter one states, and only adds to it.

    Both statements must have the same predicate; only its adverbs of manner may differ. `longer`
    must also have each other phrase of `shorter`. `longer` may add words before a noun, phrases of
    place, time or means, and earlier actions.

    The result is False if either statement has a negation or another word that changes the whole
    statement, or if no dictionary is installed.
    """
    if _tokenizer() is None or not (_is_plain(longer) and _is_plain(shorter)):
        return False
    phrases, rest = _phrases(longer), _phrases(shorter)
    if not phrases or not rest:
        return False
    verb, other = (
        [word for word in phrase.words if word[0] not in _MANNERS]
        for phrase in (phrases[-1], rest[-1])
    )
    if verb != other:
        return False
    matched = _matched(phrases[:-1], rest[:-1])
    return matched is not None and all(
        _only_adds(phrases, position, matched) for position in range(len(phrases) - 1)
    )


def _matched(longer: Sequence[Phrase], shorter: Sequence[Phrase]) -> list[Phrase | None] | None:
    left = list(shorter)
    matches: list[Phrase | None] = []
    for phrase in longer:
        same = next((other for other in left if other.role == phrase.role), None)
        if same is not None and _is_more_of(phrase, same):
            left.remove(same)
            matches.append(same)
        else:
            matches.append(None)
    return None if left else matches


def _only_adds(phrases: Sequence[Phrase], position: int, matched: Sequence[Phrase | None]) -> bool:
    phrase, same, behind = phrases[position], matched[position], phrases[position + 1]
    if same is not None:
        adds_verb = phrase.has_verb and not same.has_verb
        is_apart = position == 0 or matched[position - 1] is None
        return not adds_verb or is_apart or phrases[position - 1].role == "は"
    if phrase.role == "て":
        return True
    other = matched[position + 1] if position + 1 < len(matched) else None
    if behind.has_verb and other is not None and not other.has_verb:
        return phrase.role != "は"
    moves = behind.role == "" and behind.words[0][0] in _MOVING
    along = (
        phrase.role == "を" and moves and not any(other.role == "を" for other in matched if other)
    )
    return (along or phrase.role in _ADJUNCTS) and not phrase.has_verb


def _is_plain(tokens: Sequence[Token]) -> bool:
    return not any(
        token.kind is Kind.NOT
        or (token.kind is Kind.TURNING and token.key not in _PLAIN_ENDINGS)
        or token.key in _SCOPE
        for token in tokens
    )


def _phrases(tokens: Sequence[Token]) -> list[Phrase]:
    phrases: list[Phrase] = []
    words: list[tuple[str, str]] = []
    has_verb = False
    for token in tokens:
        if token.kind in (Kind.CONTENT, Kind.NUMBER, Kind.TURNING):
            words.append((token.key, ""))
            has_verb = has_verb or token.participle or token.kind is Kind.TURNING
        elif token.kind is Kind.PARTICLE and words:
            words[-1] = (words[-1][0], token.key)
            if token.key not in ("の", "と", "や"):
                phrases.append(Phrase(tuple(words), token.key, has_verb))
                words, has_verb = [], False
    return [*phrases, Phrase(tuple(words), "", has_verb)] if words else phrases


def _is_more_of(longer: Phrase, shorter: Phrase) -> bool:
    words = longer.words
    if (
        longer.role != shorter.role
        or (longer.has_verb and shorter.has_verb)
        or any(role in ("と", "や") for _, role in words)
        or _has_nearer_owner(words, shorter.words)
    ):
        return longer == shorter
    if words[-1][0] in _PLACES and len(words) > 1 and words[-2][1] == "の":
        place = (*words[:-2], (words[-2][0], longer.role))
        return _holds(words, shorter.words) or _holds(place, shorter.words)
    return _holds(words, shorter.words)


def _has_nearer_owner(words: Sequence[tuple[str, str]], others: Sequence[tuple[str, str]]) -> bool:
    owns = [(word in others, word[1] == "の") for word in words]
    return ((True, True), (False, True)) in pairwise(owns)


def _holds(words: Sequence[tuple[str, str]], shorter: Sequence[tuple[str, str]]) -> bool:
    rest = iter(words)
    return words[-1] == shorter[-1] and all(word in rest for word in shorter)
