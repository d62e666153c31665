"""The offline language model, which needs no API key and no network, and invents nothing.

It reads English and Japanese. It extracts what speakers declare about themselves or about a named
person, replies by quoting memories, and merges texts only if no statement is lost.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import datetime
from itertools import groupby
from typing import NamedTuple

from memory.coverage import compare_memories
from memory.models import (
    Candidate,
    Extraction,
    LanguageModel,
    Memory,
    MergeGroup,
    Question,
    Reply,
    Turn,
    Usage,
    Verdict,
)
from memory.providers.english import english_statements, retold_english
from memory.providers.worth import is_kept_as_said, without_lead, without_mention
from memory.runtime import in_thread_if_long
from memory.text import guarded, is_japanese, sentences, telling_words, with_dates

CANNOT_TELL = "the offline judge cannot tell"
"""The reason that the offline model gives when it merges no memories.

Another model may still be asked about these memories.
"""

_FREE = Usage()
_RECALLED = 3


class OfflineModel(LanguageModel):
    """A language model that works by fixed rules, without a network.

    As a judge, it merges memories only if each states all that the other states.
    """

    name = "offline"

    async def judge(self, question: Question) -> Verdict:
        """Return groups of memories that state the same, each with the text of its newest member.

        A text that adds a content word is in no group, since an addition takes a fact back as often
        as it adds one: "left Tom" and "left Tom a house".
        """
        texts = [member.content for member in question.members]
        return await in_thread_if_long(texts, _judged, question)

    async def extract(
        self,
        turns: Sequence[Turn],
        *,
        context: Sequence[Turn] = (),
        remembered: Sequence[Memory] = (),  # noqa: ARG002 - coverage finds repeats later
    ) -> Extraction:
        """Return each statement of a speaker as a candidate for a memory of that speaker.

        Turns of a bot are skipped. Of `context`, only the speakers' names are used. `remembered` is
        ignored.
        """
        texts = [turn.text for turn in (*context, *turns)]
        return await in_thread_if_long(texts, _extracted, turns, context)

    async def reply(self, turns: Sequence[Turn], recalled: Sequence[Memory]) -> Reply:
        """Return a reply that quotes at most three recalled memories, or "I see.".

        If the last turn is not a question, only memories that share a word with it are quoted.
        """
        said = turns[-1].text if turns else ""
        japanese = is_japanese(said)
        if not said.rstrip().endswith(("?", "？")):
            words = set(telling_words(said))
            recalled = [m for m in recalled if words & {*telling_words(m.content, m.user)}]
        if not recalled:
            text = "なるほど。" if japanese else "I see."
        else:
            opening = "覚えています: " if japanese else "I remember: "
            text = opening + " ".join(memory.content for memory in recalled[:_RECALLED])
        return Reply(text=text, usage=_FREE)

    async def aclose(self) -> None:
        """Do nothing, because the model has no connections."""


@guarded(lambda _question: Verdict(reason=CANNOT_TELL, usage=_FREE))
def _judged(question: Question) -> Verdict:
    members = question.members
    left = list(range(len(members)))
    groups = []
    while left:
        newest = left.pop()
        same = [n for n in left if _states_the_same(members[newest], members[n])]
        left = [n for n in left if n not in same]
        if same:
            groups.append(MergeGroup(members=(*same, newest), text=members[newest].content))
    reason = "said in one text" if groups else CANNOT_TELL
    return Verdict(parts=tuple(groups), reason=reason, usage=_FREE)


def _states_the_same(a: Memory, b: Memory) -> bool:
    found = compare_memories(a, b)
    return found.a_covers_b and found.b_covers_a


def _all_as_said(turns: Sequence[Turn], _context: Sequence[Turn]) -> Extraction:
    candidates = (
        Candidate(content=turn.text, user=turn.speaker, turns=(number,))
        for number, turn in enumerate(turns)
        if turn.text and not turn.is_bot
    )
    return Extraction(candidates=tuple(candidates), usage=_FREE)


@guarded(_all_as_said)
def _extracted(turns: Sequence[Turn], context: Sequence[Turn]) -> Extraction:
    speakers = {turn.speaker for turn in (*context, *turns)}
    candidates = [
        Candidate(
            content=statement.text,
            user=turn.speaker,
            category="opinion" if statement.is_opinion else "fact",
            intensity=statement.strength,
            turns=(number,),
        )
        for number, turn in enumerate(turns)
        if not turn.is_bot
        for statement in statements(
            turn.text, turn.speaker, turn.at, listeners=sorted(speakers - {turn.speaker})
        )
    ]
    return Extraction(candidates=tuple(candidates), usage=_FREE)


# --- statements -----------------------------------------------------------------------------------

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

    If Mia says "I moved yesterday", the statement is "Mia moved on 7 May 2026". `speaker`: who said
    the text. `at`: when. `listeners`: names of the people whom the text addresses; "Tom" is left
    out of "Tom, I moved".
    """
    found: list[tuple[str, str]] = []
    for japanese, run in groupby(sentences(text), is_japanese):
        if japanese:
            found += [
                (_retold_japanese(said, speaker, at), said) for said in run if _declares(said)
            ]
        else:
            found += _english_or_as_said(list(run), speaker, at, tuple(listeners))
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
    for n, sentence in enumerate(plain):
        is_left = sentence not in stated and is_kept_as_said(sentence)
        if is_left and not english_statements([sentence], speaker, at, listeners):
            before = sum(source in plain[:n] for _, source in found)
            found.insert(before, (without_mention(run[n]), sentence))
    return found


@guarded(lambda text, _speaker, _at: text)
def retold(text: str, speaker: str, at: datetime) -> str:
    """Return a text rewritten in the third person, with a date for "yesterday".

    `speaker`: who said the text. `at`: when it was said. A text with kana is read as Japanese, any
    other as English.
    """
    return (_retold_japanese if is_japanese(text) else retold_english)(text, speaker, at)


@guarded(lambda _text: list[str]())
def asked_to_remember(text: str) -> list[str]:
    """Return the facts that a text asks to remember: "I am vegan" for "Note: I am vegan"."""
    matches = (_request(sentence) for sentence in sentences(text))
    return [match["what"].strip() for match in matches if match]


@guarded(lambda _text: False)
def only_asks_to_remember(text: str) -> bool:
    """Return whether every sentence of the text asks to remember something."""
    return all(_request(sentence) for sentence in sentences(text))


def _request(sentence: str) -> re.Match[str] | None:
    if german := _REMEMBER_DE(sentence):
        return german
    asked = _REMEMBER(sentence) or _REMEMBER_JA(sentence)
    polite = re.search(r"\b(?:can|could|will|would) you\b", sentence[: len("hey, could you")], re.I)
    return asked if polite or not sentence.endswith(("?", "？")) else None


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
_SHORTEST_JA = 6
_LONGEST_JA = 200


def _declares(sentence: str) -> bool:
    bare = sentence.strip().rstrip("。!！")
    return (
        not sentence.endswith(("?", "？", "か。", "か"))
        and _SHORTEST_JA <= len(bare) <= _LONGEST_JA
        and not _THIN.search(bare)
        and not _ELSEWHERE.search(bare)
        and _DECLARES.search(bare) is not None
    )


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
