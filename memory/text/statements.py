"""Find what a text states about its speaker, and what it asks to remember."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime
from itertools import groupby, zip_longest
from typing import NamedTuple

from memory.text.boundary import guarded
from memory.text.cleaning import sentences
from memory.text.dating import with_dates
from memory.text.languages import is_japanese, quotations
from memory.text.retelling import (
    ADDRESSED,
    english_statements,
    plain_spelling,
    retold_english,
    speaks_as_one,
    without_greeting,
)
from memory.text.tokens import tells_of_self
from memory.text.worth import (
    has_dangling_pronoun,
    is_kept_as_said,
    is_question,
    is_talk,
    without_lead,
    without_mention,
)

_STRONG = re.compile(
    r"\b(love|hate|really|so|amazing|always|never|best|worst|allergic)\b|大好き|大嫌い|とても|絶対"
)
_OPINION = re.compile(
    r"\b(like|love|hate|prefer|enjoy|think|believe|feel|favou?rite)\b|好き|嫌い|思う|思い"
)
_REMEMBER = re.compile(
    r"(?:please[, ]+|hey[, ]+|can you |could you |will you |would you |and )*(?:please )?"
    r"(?:remember|don['’]?t forget|note|keep in mind|remind me)(?: that|:)\s+"
    r"(?!(?:time|day|night|one|moment|feeling)\b)(?P<what>.{3}(?:.*[^.!?])?)[.!?]*$",
    re.IGNORECASE | re.DOTALL,
).match
_REMEMBER_DE = re.compile(
    r"(?:bitte )?(?:kannst du dir (?:bitte )?merken|merk dir(?: bitte)?|vergiss nicht), dass "
    r"(?P<what>.{3}(?:.*[^.!?])?)[.!?]*$",
    re.IGNORECASE | re.DOTALL,
).match
_REMEMBER_JA = re.compile(
    r"(?P<what>.{3,}?)(?:ということ|こと|の|と)?[をは]?(?:覚えて(?:おいて|いて)?|忘れないで)"
    r"(?:ください|下さい|ね|よ)*[。!！]*$",
    re.DOTALL,
).match


class Statement(NamedTuple):
    """A statement about a speaker, told in the third person.

    >>> [found] = statements("I love my cello.", "Mia", datetime(2026, 5, 8, tzinfo=UTC))
    >>> found.text, found.is_opinion, found.strength
    ('Mia loves their cello.', True, 0.7)
    """

    text: str
    is_opinion: bool
    strength: float
    """0.7 if the speaker uses a strong word, such as "love" or "never"; otherwise 0.5."""


def _as_said(
    text: str,
    _speaker: str,
    _at: datetime,
    *,
    listeners: Iterable[str] = (),  # noqa: ARG001
) -> list[Statement]:
    return [Statement(text, is_opinion=False, strength=0.5)] if text else []


@guarded(_as_said)
def statements(
    text: str, speaker: str, at: datetime, *, listeners: Iterable[str] = ()
) -> list[Statement]:
    """Return the statements of a text, rewritten in the third person with dates for relative days.

    `speaker`: who said
    the text. `at`: when. `listeners`: names of the people whom the text addresses; "Tom" is left
    out of "Tom, I moved".

    >>> found = statements("I moved yesterday.", "Mia", datetime(2026, 5, 8, tzinfo=UTC))
    >>> [one.text for one in found]
    ['Mia moved on 7 May 2026.']
    """
    found: list[tuple[str, str]] = []
    own, quoting = _own_words(text, speaker)
    for japanese, run in groupby(own, is_japanese):
        if japanese:
            found += [
                (_retold_japanese(said, speaker, at) if _declares(said) else said, said)
                for said in run
                if _may_state(said)
            ]
        else:
            found += _english_or_as_said(list(run), speaker, at, tuple(listeners))
    if quoting and not is_question(quoting):
        found.append((quoting, quoting))
    return [
        Statement(stated, bool(_OPINION.search(source)), 0.7 if _STRONG.search(source) else 0.5)
        for stated, source in found
    ]


def _english_or_as_said(
    run: list[str], speaker: str, at: datetime, listeners: tuple[str, ...]
) -> list[tuple[str, str]]:
    """Return the statements of sentences, and at its place each fact that no rule can rewrite."""
    plain = [without_lead(sentence) for sentence in run]
    found = english_statements(plain, speaker, at, listeners)
    stated = {source for _, source in found}
    last = ""
    for n, sentence in enumerate(plain):
        bare = without_greeting(plain_spelling(sentence), listeners)
        if sentence in stated or english_statements([sentence], speaker, at, listeners):
            last = ""
        elif is_kept_as_said(sentence, bare):
            before = sum(source in plain[:n] for _, source in found)
            last = without_mention(run[n])
            found.insert(before, (last, sentence))
        elif last and has_dangling_pronoun(bare) and not is_talk(sentence):  # "He was called Rex."
            where = next(n for n, (text, _) in enumerate(found) if text == last)
            last = f"{last} {run[n]}"
            found[where] = (last, sentence)
        else:
            last = ""
    return found


@guarded(lambda text, _speaker, _at: text)
def retold(text: str, speaker: str, at: datetime) -> str:
    """Return a text rewritten in the third person, with a date for "yesterday".

    `speaker`: who said the text. `at`: when it was said. A text with kana is read as Japanese, any
    other as English.

    >>> retold("I am vegan.", "Mia", datetime(2026, 5, 8, tzinfo=UTC))
    'Mia is vegan.'
    """
    if _quotes(text, speaker) or not (is_japanese(text) or speaks_as_one(text)):
        return text
    return (_retold_japanese if is_japanese(text) else retold_english)(text, speaker, at)


@guarded(lambda _text: list[str]())
def asked_to_remember(text: str) -> list[str]:
    """Return the facts that a text asks to remember.

    >>> asked_to_remember("Note: I am vegan.")
    ['I am vegan']
    """
    matches = (_request(sentence) for sentence in sentences(text))
    return [match["what"].strip() for match in matches if match]


@guarded(lambda _text: False)
def only_asks_to_remember(text: str) -> bool:
    """Return whether every sentence of the text asks to remember something.

    >>> only_asks_to_remember("Note: I am vegan. I row.")
    False
    """
    return all(_request(sentence) for sentence in sentences(text))


def _request(sentence: str) -> re.Match[str] | None:
    if german := _REMEMBER_DE(sentence):
        return german
    asked = _REMEMBER(sentence) or _REMEMBER_JA(sentence)
    polite = re.search(r"\b(?:can|could|will|would) you\b", sentence[: len("hey, could you")], re.I)
    return asked if polite or not sentence.endswith(("?", "？")) else None


# --- whose words ----------------------------------------------------------------------------------

_LABEL = re.compile(r":(?=\s|$)|：|^>")
"""What stands before the words of somebody else, in any language."""
_OPENED = re.compile(r"(?:(?<![^\s(])\"|[“„«»「『])(?=[\s\w¿¡])")
_OPENED_BEFORE_I = re.compile(r"(?<![^\s(])['‘`](?=(?:I|[Mm]y|[Ww]e)\b)")
_ENDS_LINE = re.compile(r"[ \t\r]*+\n").match
_MOST_QUOTED, _SALUTATION = 2_000, 3


def _own_words(text: str, speaker: str) -> tuple[list[str], str]:
    """Return the sentences of the speaker, and the rest of the text, from a quotation on.

    Nobody can tell by rules where a quotation ends, or who says "I" in it, so nothing of it is
    rewritten. A rest of more than 2,000 characters is left out: it is a document.
    """
    own, at = list[str](), 0
    said = sentences(text)
    for sentence, following in zip_longest(said, said[1:], fillvalue=""):
        at = text.index(sentence, at)
        request = _request(sentence)
        bare = without_lead(request["what"].strip() if request else sentence)
        ends_line = _ENDS_LINE(text, at + len(sentence))
        if _quotes(bare, speaker) or (ends_line and _introduces(bare, following)):
            rest = text[at:].strip()
            return own, rest if len(rest) <= _MOST_QUOTED else ""
        own.append(request["what"].strip() if request else sentence)
        at += len(sentence)
    return own, ""


def _introduces(line: str, following: str) -> bool:
    """Return whether a line that is no sentence of the speaker stands before one with "I"."""
    is_heading = line[-1:].isalnum() and not tells_of_self(line) and without_greeting(line, ())
    return bool(is_heading and tells_of_self(following))


def _quotes(sentence: str, speaker: str) -> bool:
    """Return whether a sentence, or what follows it, may hold the words of somebody else.

    True after a label ("Tom:"), in a quotation with a word such as "I", and after a salutation of
    the speaker ("Hi Mia,"). The title of a book is no quotation.
    """
    if _LABEL.search(sentence):
        return True
    japanese = is_japanese(sentence)
    for quoted in quotations(sentence) if len(sentence) <= _MOST_QUOTED else ():
        if japanese or tells_of_self(quoted) or ADDRESSED.search(quoted):
            return True
        sentence = sentence.replace(quoted, "")
    if _OPENED.search(sentence) or _OPENED_BEFORE_I.search(sentence):
        return True
    words = sentence.split()
    return len(words) <= _SALUTATION and bool(words) and words[-1].strip(",!") == speaker


# --- Japanese -------------------------------------------------------------------------------------

_I = re.compile(r"(?:私|わたし|わたくし|僕|ぼく|俺|おれ|あたし|自分)(?=[はがのもにをと])")
_THIN = re.compile(
    r"^(?:そう|はい|いいえ|うん|ううん|ええ|なるほど|ありがとう|すごい|すみません|ごめん|こんにちは"
    r"|おはよう|こんばんは|よかった|いいね|もちろん|たしかに|確かに|じゃあ|では|またね|お疲れ|楽しみ)"
    r"|(?:楽しみ|うれしい|嬉しい|よかった|最高|すごい|すごかった|楽しかった|面白かった|大変|頑張|疲れ|眠い"
    r"|暇|元気)(?:です|だ|でした|だった|にしています|ります|りました|る|た|ました)?(?:よ|ね)*$"
    r"|(?:ください|ましょう|でしょう|だろう|かな|かも(?:しれ(?:ない|ません))?|と思います|と思う|ませんか)"
    r"(?:よ|ね)*$|^(?>.*?一緒に).*(?:たい|よう)(?:です)?(?:よ|ね)*$"
)
_ELSEWHERE = re.compile(
    r"あなた|(?:これ|それ|あれ|ここ|そこ|あそこ|こちら|そちら|あちら|どれ|こんな|そんな|あんな|この|その|あの"
    r"|彼女?(?!氏)|彼ら)(?=[はがをにもでのと、いなとん]|[一-龠ァ-ヶ])"
)
_DECLARES = re.compile(
    r"(?:です|ます|でした|ました|ません|ない|だ|だった|た|る|う|く|す|つ|ぬ|ぶ|む|い)(?:よ|ね|わ|の)*$"
)
_PARTICLE = re.compile("[はがを]")
_TOPIC = re.compile(r"^[^、。]{1,15}?[はが]")
_TIME_TOPIC = re.compile(r"^[0-9年月日今来先毎昨去週曜朝晩夜]+[はが、]")
_KIN = re.compile(
    r"^(?:うちの)?(?=(?:兄|姉|弟|妹|父|母|両親|妻|夫|旦那|主人|息子|娘|祖父|祖母|彼氏|家族|子供|子ども)(?:[はがの]|たち)"
    r"|(?:犬|猫|ペット)の名前)|^うちの"
)
_FELT = re.compile(
    r"[はが](?:大好き|好き|大嫌い|嫌い|苦手|得意|ほしい|欲しい|上手|下手|怖い|できる|できます)"
)
_ENDING = re.compile(r"(?<=[るたいすうくつぬぶむだ])(?:よね|よ|ね|わ)$")
_SHORTEST_JA = 5
_LONGEST_JA = 200


def _may_state(sentence: str) -> bool:
    bare = _bare(sentence)
    return (
        not sentence.endswith(("?", "？", "か。", "か"))
        and _SHORTEST_JA <= len(bare) <= _LONGEST_JA
        and not _THIN.search(bare)
        and not _ELSEWHERE.search(bare)
        and (_declares(sentence) or _PARTICLE.search(bare) is not None)
    )


def _declares(sentence: str) -> bool:
    return _DECLARES.search(_bare(sentence)) is not None


def _bare(sentence: str) -> str:
    return sentence.strip().rstrip("。!！")


def _retold_japanese(text: str, name: str, at: datetime) -> str:
    dated = with_dates(text.strip().rstrip("。!！"), at)
    named = _I.sub(name, dated)
    if named == dated:
        named = _of_the_speaker(dated, name)
    return _ENDING.sub("", named) + "。"


def _of_the_speaker(text: str, name: str) -> str:
    if _KIN.match(text):
        return _KIN.sub(f"{name}の", text, count=1)
    has_topic = _TOPIC.match(text) and not _TIME_TOPIC.match(text)
    return text if has_topic and not _FELT.search(text) else f"{name}は{text}"
