"""What somebody said, as statements about them by name: the offline model's reading. Pure.

English and Japanese. A sentence is taken if it declares something in the first person ("I moved
to Porto") or about something named ("Clara studies law"), stands alone and is worth keeping.
Questions, greetings, small talk, praise and what is addressed to the listener are passed over.
Requests such as "Remember that I ..." are found too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime, timedelta
from itertools import groupby
from typing import NamedTuple

from memory.offline.english import english_statements, retold_english
from memory.text import is_japanese, sentences

_STRONG = re.compile(
    r"\b(love|hate|really|so|amazing|always|never|best|worst|allergic)\b|大好き|大嫌い|とても|絶対"
)
_OPINION = re.compile(
    r"\b(like|love|hate|prefer|enjoy|think|believe|feel|favou?rite)\b|好き|嫌い|思う|思い"
)
_REMEMBER = re.compile(
    r"(?:please[, ]+|hey[, ]+|can you |could you |and )*"
    r"(?:remember|don['’]t forget|note|keep in mind)(?: that|:)\s+"
    r"(?!(?:time|day|night|one|moment|feeling)\b)(?P<what>.{3,}?)[.!]*$",
    re.IGNORECASE | re.DOTALL,
)
_REMEMBER_JA = re.compile(
    r"(?P<what>.{3,}?)(?:ということ|こと|の|と)?[をは]?(?:覚えて(?:おいて|いて)?|忘れないで)"
    r"(?:ください|下さい|ね|よ)*[。!！]*$",
    re.DOTALL,
)


class Statement(NamedTuple):
    """A statement that names whom it is about; strength is 0..1."""

    text: str
    is_opinion: bool
    strength: float


def statements(
    text: str, speaker: str, at: datetime, *, listeners: Iterable[str] = ()
) -> list[Statement]:
    """Return what the speaker states, in the third person and with dates for days."""
    found: list[tuple[str, str]] = []
    for japanese, run in groupby(sentences(text), is_japanese):
        if japanese:
            found += [(_retold_japanese(one, speaker, at), one) for one in run if _declares(one)]
        else:
            found += english_statements(list(run), speaker, at, tuple(listeners))
    return [
        Statement(stated, bool(_OPINION.search(source)), 0.7 if _STRONG.search(source) else 0.5)
        for stated, source in found
    ]


def retold(text: str, speaker: str, at: datetime) -> str:
    """Tell a speaker's words about themselves in the third person."""
    return (_retold_japanese if is_japanese(text) else retold_english)(text, speaker, at)


def asked_to_remember(text: str) -> list[str]:
    """Return what sentences like "Remember that I ..." ask to remember."""
    matches = (_request(sentence) for sentence in sentences(text))
    return [match["what"].strip() for match in matches if match]


def only_asks_to_remember(text: str) -> bool:
    """Whether every sentence is such a request."""
    return all(_request(sentence) for sentence in sentences(text))


def _request(sentence: str) -> re.Match[str] | None:
    if sentence.endswith(("?", "？")):
        return None
    return _REMEMBER.match(sentence) or _REMEMBER_JA.match(sentence)


# --- Japanese -------------------------------------------------------------------------------------

_I = re.compile(r"(?:私|わたし|わたくし|僕|ぼく|俺|おれ|あたし|自分)(?=[はがのもにをと])")
_THIN = re.compile(
    r"^(?:そう|はい|いいえ|うん|ううん|ええ|なるほど|ありがとう|すごい|すみません|ごめん|こんにちは"
    r"|おはよう|こんばんは|よかった|いいね|もちろん|たしかに|確かに|じゃあ|では|またね|お疲れ|楽しみ)"
    r"|(?:楽しみ|うれしい|嬉しい|よかった|最高|すごい|すごかった|楽しかった|面白かった|大変|頑張|疲れ|眠い"
    r"|暇|元気)(?:です|だ|でした|だった|にしています|ります|りました|る|た|ました)?(?:よ|ね)*$"
    r"|(?:ください|ましょう|でしょう|だろう|かな|かも(?:しれ(?:ない|ません))?|と思います|と思う|ませんか)"
    r"(?:よ|ね)*$|一緒に.*(?:たい|よう)(?:です)?(?:よ|ね)*$"
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
"""A relative or pet of the speaker, named without an owner."""
_FELT = re.compile(
    r"[はが](?:大好き|好き|大嫌い|嫌い|苦手|得意|ほしい|欲しい|上手|下手|怖い|できる|できます)"
)
"""A liking or an ability of the speaker, although another word is marked as the topic."""
_ENDING = re.compile(r"(?<=[るたいすうくつぬぶむだ])(?:よね|よ|ね|わ)$")
_SHORTEST = 6
_LONGEST = 200


def _declares(sentence: str) -> bool:
    bare = sentence.strip().rstrip("。!！")
    return (
        not sentence.endswith(("?", "？", "か。", "か"))
        and _SHORTEST <= len(bare) <= _LONGEST
        and not _THIN.search(bare)
        and not _ELSEWHERE.search(bare)
        and _DECLARES.search(bare) is not None
    )


def _retold_japanese(text: str, name: str, at: datetime) -> str:
    """Write the name for "I"; a sentence without a topic of its own is about the speaker."""
    dated = _RELATIVE.sub(lambda match: _dated(match, at), text.strip().rstrip("。!！"))
    named = _I.sub(name, dated)
    if named == dated:
        named = _of_the_speaker(dated, name)
    return _ENDING.sub("", named) + "。"


def _of_the_speaker(text: str, name: str) -> str:
    """Name the speaker as the topic, or as the owner of a relative."""
    if _KIN.match(text):
        return _KIN.sub(f"{name}の", text, count=1)
    has_topic = _TOPIC.match(text) and not _TIME_TOPIC.match(text)
    return text if has_topic and not _FELT.search(text) else f"{name}は{text}"


_DAYS = {
    "一昨日": -2, "おととい": -2, "昨日": -1, "きのう": -1, "今日": 0, "きょう": 0, "明日": 1,
    "あした": 1, "明後日": 2, "あさって": 2,
}  # fmt: skip
_YEARS = {"一昨年": -2, "おととし": -2, "昨年": -1, "去年": -1, "今年": 0, "ことし": 0, "来年": 1}
_MONTHS = {"先月": -1, "今月": 0, "来月": 1}
_WEEKS = {"先週": "の前の週", "今週": "の週", "来週": "の次の週"}
_RELATIVE = re.compile(
    f"(?P<word>{'|'.join(sorted((*_DAYS, *_YEARS, *_MONTHS, *_WEEKS), key=len, reverse=True))})"
    "(?P<bare>(?=[^、,にのはもかまでが]))?"
)


def _dated(match: re.Match[str], at: datetime) -> str:
    word, particle = match["word"], "" if match["bare"] is None else "に"
    if word in _YEARS:
        return f"{at.year + _YEARS[word]}年{particle}"
    if word in _MONTHS:
        year, month = divmod(at.year * 12 + at.month - 1 + _MONTHS[word], 12)
        return f"{year}年{month + 1}月{particle}"
    if word in _WEEKS:
        return f"{_day(at)}{_WEEKS[word]}{particle}"
    return _day(at + timedelta(days=_DAYS[word])) + particle


def _day(day: datetime) -> str:
    return f"{day.year}年{day.month}月{day.day}日"
