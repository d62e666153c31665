"""Recognise the language of a text, and the values in it that are compared as they are written.

`GRAMMARS` has the words of languages that need no rules of their own. To add a language that puts
spaces between words, enter a `Grammar` there. No other code changes. English and Japanese are not
in `GRAMMARS`, because both have rules of their own.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

# --- scripts --------------------------------------------------------------------------------------

_CJK = re.compile(
    "[\u3005\u3041-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff66-\uff9f\U00020000-\U000323af]"
)
_KANA = re.compile("[\u3041-\u30fa]")


def has_cjk(text: str) -> bool:
    """Return whether the text has a Japanese or Chinese character (kana or Han).

    >>> has_cjk("Mia likes 寿司."), has_cjk("Mia likes sushi.")
    (True, False)
    """
    return not text.isascii() and _CJK.search(text) is not None


def is_japanese(text: str) -> bool:
    """Return whether the text has kana, which only Japanese uses.

    >>> is_japanese("ミアは猫が好き"), is_japanese("我喜欢猫")
    (True, False)
    """
    return not text.isascii() and _KANA.search(text) is not None


# --- languages ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Grammar:
    """The words of one language, all in lower case, except in `o_clock`.

    A list may be empty. The first three apply only to texts that `language_of` recognises as this
    language. The others apply to texts in any language, because a short text may not show its
    language. A change may alter the search terms that ledgers store. Then existing ledgers need a
    migration that computes their terms again.
    """

    function_words: frozenset[str]
    """Frequent small words by which the language is recognised; avoid words of other languages."""
    decimal_comma: bool = False
    """Whether numbers are written as in 1.000,50."""
    capital_nouns: bool = False
    """Whether all nouns have a capital, so that a capital does not show a name."""

    letters: str = ""
    """Letters that English does not have."""
    numbers: Mapping[str, int] = field(default_factory=dict)
    months: Mapping[str, str] = field(default_factory=dict)
    """Months, each with its English name in lower case."""
    weekdays: Mapping[str, str] = field(default_factory=dict)
    """Weekdays, each with its English name in lower case."""
    negations: frozenset[str] = frozenset()
    """Words for "not" and "no" that hardly occur in other languages."""
    turning: frozenset[str] = frozenset()
    """Words that change the whole statement, and that hardly occur in other languages."""
    numbered: frozenset[str] = frozenset()
    """Nouns such as "chapter", after which a Roman numeral may follow."""
    o_clock: frozenset[str] = frozenset()
    """Words that follow a time of day, with their capitals, such as "Uhr"."""
    first_person: frozenset[str] = frozenset()
    """Words such as "I" and "my"."""


_GERMAN = Grammar(
    function_words=frozenset(
        "der dem eine einen einem einer eines und ist nicht ich auf mit für wird hat sind zum zur "
        "vom beim im ein wurde wurden".split()
    ),
    decimal_comma=True,
    capital_nouns=True,
    letters="äöüßÄÖÜ",
    numbers={
        word: number
        for number, word in enumerate(
            "null eins zwei drei vier fünf sechs sieben acht neun zehn".split()
        )
    },
    months={
        "januar": "january", "februar": "february", "märz": "march", "april": "april",
        "mai": "may", "juni": "june", "juli": "july", "august": "august",
        "september": "september", "oktober": "october", "november": "november",
        "dezember": "december",
    },
    weekdays={
        "montag": "monday", "dienstag": "tuesday", "mittwoch": "wednesday",
        "donnerstag": "thursday", "freitag": "friday", "samstag": "saturday", "sonntag": "sunday",
    },
    negations=frozenset(
        "nicht kein keine keinen keinem keiner keines nie niemals niemand nirgends ohne "
        "weder".split()
    ),
    turning=frozenset(
        "vielleicht früher war waren hatte hatten möchte wollte würde könnte sollte falls oder "
        "außer statt kaum selten".split()
    ),
    numbered=frozenset({"typ", "teil", "stufe", "kapitel", "band"}),
    o_clock=frozenset({"Uhr"}),
    first_person=frozenset("ich mich mir mein meine meinen meinem meiner meines".split()),
)  # fmt: skip
GRAMMARS: Mapping[str, Grammar] = {"German": _GERMAN}

ENGLISH, JAPANESE, OTHER = "English", "Japanese", "other"
"""Languages that are not in `GRAMMARS`; OTHER is any language that is not recognised.

`memory/coverage` has separate rules for English and Japanese.
"""

_WORDS = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*").findall
_ENGLISH = frozenset(
    "the and of to for with from has have had he she his her they their this that at my you your "
    "it an are been not who which by will i i'm it's its was is in a on as be were him them "
    "while because although during before after since doesn't don't didn't isn't wasn't can't "
    "won't never".split()
)
_NOT_ENGLISH = frozenset(
    "el los las una uno del y por para está es en le les des du et est une dans avec il elle ne "
    "je qui het een niet zijn ik voor de di che non è gli della nel os um uma não em och att det "
    "är jag ett inte og ikke jeg af på nie jest się con les sus och som til hij zij bij ook".split()
)
_ENGLISH_ALONE = frozenset("the a of and with to for is he she they i".split())
"""English words which show that a text is not in a language of `GRAMMARS`."""


def language_of(text: str) -> str:
    """Return the language of a text by its function words: ENGLISH, a key of `GRAMMARS`, or OTHER.

    JAPANESE is never returned; `parse` in `memory/coverage` recognises Japanese.

    >>> language_of("Mia hat eine Katze."), language_of("Mia has a cat.")
    ('German', 'English')
    """
    words = {word if word == "May" else word.casefold() for word in _WORDS(text)}
    for language, grammar in GRAMMARS.items():
        if words.isdisjoint(_ENGLISH_ALONE) and not words.isdisjoint(grammar.function_words):
            return language
    is_english = not words.isdisjoint(_ENGLISH) and words.isdisjoint(_NOT_ENGLISH)
    return ENGLISH if is_english and not has_cjk(text) else OTHER


def may_be_english(text: str) -> bool:
    """Return whether nothing in a short text shows that it is not English: "Mia runs 12 km.".

    >>> may_be_english("Mia runs 12 km."), may_be_english("Mia läuft 12 km.")
    (True, False)
    """
    words = set(_WORDS(text.casefold()))
    others = (grammar.function_words for grammar in GRAMMARS.values())
    return text.isascii() and words.isdisjoint(_NOT_ENGLISH.union(*others))


def grammar_of(text: str) -> Grammar | None:
    """Return the word lists of the text's language; None if the language is not in `GRAMMARS`.

    >>> grammar_of("Mia hat eine Katze.") is GRAMMARS["German"]
    True
    >>> grammar_of("Mia ha un gatto e un cane.")
    """
    return GRAMMARS.get(language_of(text))


def with_all_languages(words: str, field: Callable[[Grammar], frozenset[str]]) -> frozenset[str]:
    """Split `words` at spaces, and add the words that `field` returns for each grammar."""
    return frozenset(words.split()).union(*map(field, GRAMMARS.values()))


# --- literal values -------------------------------------------------------------------------------

_ATTRIBUTES: Mapping[str, frozenset[str]] = {
    language: frozenset(nouns.split())
    for language, nouns in {
        "English": "password passwords passphrase passcode pin pins pwd key keyword code "
        "codes login logins user username usernames handle handles nick nickname alias token "
        "tokens secret id ids identifier registration network networks wifi wi-fi "
        "wlan ssid hotspot e-mail email e-mails emails mail phone telephone number "
        "numbers address addresses url link website domain hostname host server path file filename "
        "folder directory branch commit hash tag tags version versions serial "
        "account iban bic combination combo variable command regex pattern "
        "channel gamertag hashtag license licence ref sku",
        "German": "passwort passwörter kennwort passphrase passcode pin schlüssel lizenzschlüssel "
        "code login benutzer benutzername nutzername username spitzname alias token id kennung "
        "kennzeichen autokennzeichen nummernschild netz netzwerk wlan wifi ssid hotspot mail "
        "e-mail email telefon nummer nummern telefonnummer handynummer adresse url link "
        "website domain server pfad datei dateiname ordner version seriennummer konto iban "
        "bic kombination losung losungswort variable befehl kanal hashtag",
        "French": "passe code clé clef identifiant pseudo pseudonyme alias jeton plaque réseau "
        "wifi courriel mail e-mail téléphone numéro adresse url lien site domaine serveur "
        "chemin fichier branche version compte iban variable commande",
        "Spanish": "contraseña clave código usuario alias apodo token matrícula wifi "
        "correo email teléfono móvil número dirección url enlace sitio dominio servidor ruta "
        "archivo carpeta rama versión cuenta iban variable comando",
        "Japanese": "パスワード パスコード パスフレーズ 暗証番号 暗証 合言葉 鍵 キー コード "
        "ログイン ユーザー ハンドル アカウント ニックネーム トークン 番号 ナンバー ネットワーク "
        "ワイファイ メール 電話 携帯 アドレス 住所 バージョン ファイル フォルダ リンク サイト "
        "サーバー チャンネル",
    }.items()
}
"""Nouns of attributes that have one value, such as "password", by language.

A compound counts too if it ends in one of these nouns after a hyphen, and in German also without
one: "WLAN-Passwort", "Handynummer".
"""
_NOUNS = frozenset().union(*(nouns for name, nouns in _ATTRIBUTES.items() if name != "Japanese"))
_COMPOUNDS = re.compile(r"[^\W\d_]+(?:[-‐][^\W\d_]+)*")
_IN_JAPANESE = re.compile("|".join(sorted(_ATTRIBUTES["Japanese"], key=len, reverse=True)))
_COMPOUND = re.compile(r"\w{3,}(?:passwort|kennwort|nummer|code|kennung|adresse|name)$").match
_PERSON = re.compile(
    r"(?:^|(?<=[.!?\n]\s))(?:(?:the|der|die|el|la) )?(?:user|benutzer|usuario)s?\b"
    r"(?!['’]?s? ?(?:name|id)\b|\s*[-:=])|(?:^|(?<=[。！？\n]))ユーザー(?=[はがのもに、])",
    re.IGNORECASE,
)
"""The person whom a text is about, as mem0 writes of them: "The user likes tea"."""
_LINK = re.compile(
    r"(?:\b(?:is|are|was|were|called|named|ist|war|lautet|heißt|est|es|era)\b|[:=])\s*",
    re.IGNORECASE,
)
_QUOTED = re.compile(
    r"\"[^\"]+\"|“[^“”]+”|„[^„“”]+[“”]|«[^«»]+»|»[^«»]+«|`[^`]+`|「[^「」]+」|『[^『』]+』"
    r"|‘[^‘’]+’(?!\w)"
    r"|(?<![\w'])'[^']+'(?!\w)"
)


@lru_cache(maxsize=16_384)
def literal_start(text: str) -> int:
    """Return where the last noun such as "password" ends, whose value is literal; 0 if none does.

    >>> [bool(literal_start(text)) for text in ("Mia's wifi password is Fjord", "Mia sails.")]
    [True, False]
    """
    ends = []
    for word in _COMPOUNDS.finditer(text):
        low = word.group().casefold()
        if low in _NOUNS or low.rpartition("-")[2] in _NOUNS or _COMPOUND(low):
            ends.append(word.end())
    if not text.isascii():
        ends += [noun.end() for noun in _IN_JAPANESE.finditer(text)]
    people = {person.end() for person in _PERSON.finditer(text)} if ends else set()
    return max((end for end in ends if end not in people), default=0)


def literal_value(text: str) -> str:
    """Return what stands behind the last noun of an attribute, without "is"; "" if nothing does.

    >>> literal_value("Mia's password is Fjord 7!")
    'Fjord 7!'
    """
    start = literal_start(text)
    behind = text[start:] if start else ""
    values = [behind[link.end() :] for link in _LINK.finditer(behind)]
    return next((value for value in reversed(values) if value), behind)


def quotations(text: str) -> Counter[str]:
    """Return what stands inside quotation marks and backticks, each as often as it occurs.

    >>> quotations("Mia reads `a.txt` and “Emma”.")
    Counter({'a.txt': 1, 'Emma': 1})
    """
    return Counter(found.group()[1:-1] for found in _QUOTED.finditer(text))
