"""What somebody said, as statements about them by name: the offline model's reading. Pure.

English and Japanese. A sentence is taken when it declares something in the first person ("I moved
to Porto") or about something named ("Clara studies law"). Questions, greetings, small talk and
what is addressed to the listener are passed over.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta

_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])\s*|\n+")
_JAPANESE = re.compile(r"[\u3041-\u30ff]")


@dataclass(frozen=True)
class Statement:
    """One thing stated, naming who it is about; strength is 0..1."""

    text: str
    is_opinion: bool
    strength: float


def sentences(text: str) -> list[str]:
    """Sentences with their final marks, in any script."""
    return [sentence.strip() for sentence in _SENTENCE_END.split(text.strip()) if sentence.strip()]


def is_japanese(text: str) -> bool:
    """Whether it holds kana."""
    return _JAPANESE.search(text) is not None


def statements(text: str, speaker: str, at: datetime) -> list[Statement]:
    """What the speaker states, a sentence each, told of them by name and with dates for days."""
    found = []
    for sentence in sentences(text):
        tell = _japanese if is_japanese(sentence) else _english
        told = tell(sentence, speaker, at)
        if told is not None:
            strong = bool(_STRONG.search(sentence))
            found.append(Statement(told, bool(_OPINION.search(sentence)), 0.7 if strong else 0.5))
    return found


def asked_to_remember(text: str) -> list[str]:
    """What sentences like "Remember that I ..." ask to remember."""
    matches = (_request(sentence) for sentence in sentences(text))
    return [match["what"].strip() for match in matches if match]


def only_asks_to_remember(text: str) -> bool:
    """Whether every sentence is such a request."""
    return all(_request(sentence) for sentence in sentences(text))


def _request(sentence: str) -> re.Match[str] | None:
    if sentence.endswith(("?", "？")):
        return None
    return _REMEMBER.match(sentence) or _REMEMBER_JA.match(sentence)


def retold(text: str, speaker: str, at: datetime) -> str:
    """The speaker's words about themselves, told of them by name."""
    if is_japanese(text):
        return _japanese_name(text, speaker)
    return _final_stop(_with_dates(_third_person(text, speaker), at))


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
_STRONG = re.compile(
    r"\b(love|hate|really|so|amazing|always|never|best|worst|allergic)\b|大好き|大嫌い|とても|絶対"
)
_OPINION = re.compile(
    r"\b(like|love|hate|prefer|enjoy|think|believe|feel|favou?rite)\b|好き|嫌い|思う|思い"
)


# --- English ----------------------------------------------------------------------------------

_OPENER = re.compile(
    r"^(?:(?:yeah|yep|yes|no|nope|oh|wow|well|so|and|but|also|actually|haha|lol|hey|hi|hello|thanks"
    r"|thank you|sure|ok|okay|definitely|absolutely|totally|honestly|anyway|anyways|by the way|btw"
    r"|right|cool|awesome|great|nice|true|exactly|plus|luckily|thankfully)\b[\s,!.:;-]*)+",
    re.IGNORECASE,
)
_SUBJECT = re.compile(r"^(?:[\w'’]+[ ,]+){0,5}?(?:I|I['’](?:m|ve|ll|d)|[Mm]y|[Ww]e|[Oo]ur)\b")
_VOCATIVE = re.compile(r"^[A-Z]\w+[,!] (?=\w)")
_ADDRESSED = re.compile(r"\b(?:you|your|yours|yourself|ya|u|ur)\b", re.IGNORECASE)
_THIN = re.compile(
    r"\bI(?: (?:totally|really|completely|also|just))* (?:agree|see|guess|hope|know|mean|bet|wish"
    r"|wonder|suppose|understand|think so|get it|appreciate|can['’]t wait|couldn['’]t agree)\b"
    r"|\bI['’]?(?:m| am)(?: so| really| very)? (?:glad|sorry|happy for|proud of|here for|sure)\b"
    r"|\bI['’]ll (?:let|see|keep|check|try|think|be)\b|\bI['’]d love to (?:hear|see|know)\b"
    r"|\bsince we (?:last )?(?:talked|spoke|chatted|met)\b"
    r"|^(?:my (?:pleasure|bad|goodness)|we should|let me|let['’]s|glad|happy|nice|good|great|hope"
    r"|hoping|looking forward|can['’]t wait|guess|kudos|sounds|looks|maybe|congrats|been|much"
    r"|just|it|this|these|they|those|that|he|she|here['’]s)\b",
    re.IGNORECASE,
)
_NAMED = re.compile(
    r"^(?!(?:That|This|It|There|What|Here|These|Those|How|Why|Who|Both|Everyone|Everything|Nothing|"
    r"Something|Anything|Someone|Even|Every|Each|All|Some|Such|One)\b|\w+ing\b)"
    r"(?:The [\w-]+|[A-Z][\w'’]+)(?: [A-Z][\w'’]+| (?:and|of|in|at) [\w'’]+| [a-z]+)?(?: [a-z]+)? "
    r"(?:is|was|are|were|has|had|will|can|lives|works|\w{3,}(?:ed|es|s))\b "
)
_FACTUAL = re.compile(r"\d|(?<=[a-z,] )[A-Z][a-z]")
_FEWEST_WORDS = 4


def _english(sentence: str, speaker: str, at: datetime) -> str | None:
    bare = _VOCATIVE.sub("", _OPENER.sub("", sentence))
    if bare.endswith("?") or len(bare.split()) < _FEWEST_WORDS:
        return None
    if _ADDRESSED.search(bare) or _THIN.search(bare):
        return None
    if _SUBJECT.match(bare):
        return retold(bare, speaker, at)
    if _NAMED.match(bare) and _FACTUAL.search(bare) and not _FIRST_PERSON.search(bare):
        return _final_stop(_with_dates(bare, at))
    return None


_FIRST_PERSON = re.compile(
    r"\b(?P<word>I['’]m not|I am|I['’]m|I was|I wasn['’]t|I have|I['’]ve|I haven['’]t|I don['’]t"
    r"|I do|I['’]ll|I['’]d|I|[Mm]yself|[Mm]ine|[Mm]y|[Mm]e|[Ww]e['’]re|[Ww]e['’]ve|[Ww]e['’]ll"
    r"|[Ww]e['’]d"
    r"|[Ww]e|[Oo]urselves|[Oo]urs|[Oo]ur|[Uu]s)\b"
)
_NAMED_FORM = {
    "i'm not": "{n} is not", "i am": "{n} is", "i'm": "{n} is", "i was": "{n} was",
    "i wasn't": "{n} wasn't", "i have": "{n} has", "i've": "{n} has", "i haven't": "{n} hasn't",
    "i don't": "{n} doesn't", "i do": "{n} does", "i'll": "{n} will", "i'd": "{n} would",
    "i": "{n}", "my": "{n}'s", "mine": "{n}'s", "me": "{n}", "myself": "{n}",
    "we": "{n} and others", "we're": "{n} and others are", "we've": "{n} and others have",
    "we'll": "{n} and others will", "we'd": "{n} and others would", "us": "{n} and others",
    "our": "{n}'s", "ours": "{n}'s", "ourselves": "{n} and others",
}  # fmt: skip
_LATER_FORM = {
    "i'm not": "they are not", "i am": "they are", "i'm": "they are", "i was": "they were",
    "i wasn't": "they weren't", "i have": "they have", "i've": "they have",
    "i haven't": "they haven't", "i don't": "they don't", "i do": "they do", "i'll": "they will",
    "i'd": "they would", "i": "they", "my": "their", "mine": "theirs", "me": "them",
    "myself": "themself", "we": "they", "we're": "they are", "we've": "they have",
    "we'll": "they will", "we'd": "they would", "us": "them", "our": "their", "ours": "theirs",
    "ourselves": "themselves",
}  # fmt: skip
_ADVERBS = frozenset(
    "really just also always never still usually recently actually definitely finally even only "
    "often sometimes totally absolutely already almost probably currently mostly now then".split()
)
_UNCHANGED = frozenset(
    "can could will would should may might must did had was were went got made took came saw felt "
    "found told gave left met bought thought knew heard said kept ran began grew brought taught "
    "caught won lost spent sold built sent held stood understood wrote read put cut let set hit "
    "hurt quit drove rode flew swam sang drank ate slept woke spoke broke chose wore threw fell "
    "forgot became led paid laid lay sat shot shut stuck stole swore tore fought drew can't "
    "couldn't won't wouldn't didn't hadn't shouldn't mustn't ain't used dealt meant bet fed fled "
    "hid hung rose shook sank spread struck swept swung wept wound".split()
)


def _third_person(text: str, name: str) -> str:
    """First person as third: by name at its first mention, then "they"."""
    told: list[str] = []
    end = 0
    for match in _FIRST_PERSON.finditer(text):
        word = match["word"].lower().replace("’", "'")
        forms = _LATER_FORM if told else _NAMED_FORM
        told += [text[end : match.start()], forms[word].format(n=name)]
        end = match.end()
        if word == "i" and forms is _NAMED_FORM:
            verb, end = _verb_for_one(text, end)
            told.append(verb)
    retold = "".join([*told, text[end:]])
    return retold[:1].upper() + retold[1:]


_TO_VERB = re.compile(rf"(?P<before>(?: (?:{'|'.join(sorted(_ADVERBS))}))* )(?P<verb>[\w'’]+)")


def _verb_for_one(text: str, start: int) -> tuple[str, int]:
    """What follows a name up to its verb, the verb as for one person, and where that ends."""
    match = _TO_VERB.match(text, start)
    if match is None:
        return "", start
    return match["before"] + _conjugated(match["verb"]), match.end()


def _conjugated(verb: str) -> str:
    plain = verb.lower().replace("’", "'")
    if plain in _UNCHANGED or plain.endswith("ed") or not plain.isalpha():
        return verb
    if plain in ("have", "do", "go", "be"):
        return {"have": "has", "do": "does", "go": "goes", "be": "is"}[plain]
    if re.search(r"(?:s|sh|ch|x|z|o)$", plain):
        return verb + "es"
    return verb[:-1] + "ies" if re.search(r"[^aeiou]y$", plain) else verb + "s"


_DAYS = {"yesterday": -1, "today": 0, "tonight": 0, "tomorrow": 1, "last night": -1}
_RELATIVE = re.compile(
    r"\b(yesterday|today|tonight|tomorrow|last night)\b"
    r"|\b((?:last|next|this|the other) (?:week|weekend|month|year|day|summer|winter|spring|fall"
    r"|autumn|monday|tuesday|wednesday|thursday|friday|saturday|sunday)"
    r"|(?:a few|a couple of|\w+) (?:days|weeks|months) ago)\b",
    re.IGNORECASE,
)


def _with_dates(text: str, at: datetime) -> str:
    """The first day that is named relative to now, with its date; a vaguer time, with today's."""

    def dated(match: re.Match[str]) -> str:
        if match[1]:
            day = at + timedelta(days=_DAYS[match[1].lower()])
            return f"{match[0]} ({day.day} {day:%B %Y})"
        return f"{match[0]} (said on {at.day} {at:%B %Y})"

    return _RELATIVE.sub(dated, text, count=1)


def _final_stop(text: str) -> str:
    bare = text.strip().rstrip("!. ,;")
    return f"{bare}."


# --- Japanese ---------------------------------------------------------------------------------

_I_JA = re.compile(r"(?:私|わたし|わたくし|僕|ぼく|俺|おれ|あたし|自分)(?=[はがのもにをと])")
_THIN_JA = re.compile(
    r"^(?:そう|はい|いいえ|うん|ううん|ええ|なるほど|ありがとう|すごい|すみません|ごめん|こんにちは"
    r"|おはよう|こんばんは|よかった|いいね|もちろん|たしかに|確かに)"
)
_DECLARES_JA = re.compile(
    r"(?:です|ます|でした|ました|ません|ない|だ|だった|た|る|う|く|す|つ|ぬ|ぶ|む|い)(?:よ|ね|わ|の)*[。!！]?$"
)
_TOPIC_JA = re.compile(r"^[^、。]{1,15}?[はが]")
_SHORTEST_JA = 7


def _japanese(sentence: str, speaker: str, _at: datetime) -> str | None:
    bare = sentence.strip()
    asks = bare.endswith(("?", "？", "か。", "か"))
    if asks or len(bare) < _SHORTEST_JA or _THIN_JA.match(bare) or "あなた" in bare:
        return None
    return _japanese_name(bare, speaker) if _DECLARES_JA.search(bare) else None


def _japanese_name(text: str, speaker: str) -> str:
    """Named where it says "I"; what has no topic of its own is about the speaker."""
    named = _I_JA.sub(speaker, text)
    if named == text and not _TOPIC_JA.match(text):
        named = f"{speaker}は{text}"
    return named.rstrip("。!！") + "。"
