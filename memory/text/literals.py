"""Find values that are compared as they are written: after "password", and inside quotation marks.

Capitals, spaces, punctuation, width and sign are part of such a value.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from functools import lru_cache

ATTRIBUTES: Mapping[str, frozenset[str]] = {
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
_NOUNS = frozenset().union(*(nouns for name, nouns in ATTRIBUTES.items() if name != "Japanese"))
_WORD = re.compile(r"[^\W\d_]+(?:[-‐][^\W\d_]+)*")
_IN_JAPANESE = re.compile("|".join(sorted(ATTRIBUTES["Japanese"], key=len, reverse=True)))
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


def names_attribute(text: str) -> bool:
    """Return whether the text has a noun such as "password", whose value is literal.

    >>> names_attribute("Mia's wifi password is Fjord"), names_attribute("Mia sails.")
    (True, False)
    """
    return _last_noun(text) >= 0


@lru_cache(maxsize=16_384)
def _last_noun(text: str) -> int:
    """Return where the last noun of an attribute ends; -1 if there is none."""
    ends = []
    for word in _WORD.finditer(text):
        low = word.group().casefold()
        if low in _NOUNS or low.rpartition("-")[2] in _NOUNS or _COMPOUND(low):
            ends.append(word.end())
    if not text.isascii():
        ends += [noun.end() for noun in _IN_JAPANESE.finditer(text)]
    people = {person.end() for person in _PERSON.finditer(text)} if ends else set()
    return max((end for end in ends if end not in people), default=-1)


def literal_value(text: str) -> str:
    """Return what stands behind the last noun of an attribute, without "is"; "" if nothing does.

    >>> literal_value("Mia's password is Fjord 7!")
    'Fjord 7!'
    """
    start = _last_noun(text)
    if start < 0:
        return ""
    behind = text[start:]
    values = [behind[link.end() :] for link in _LINK.finditer(behind)]
    return next((value for value in reversed(values) if value), behind)


def quotations(text: str) -> Counter[str]:
    """Return what stands inside quotation marks and backticks, each as often as it occurs.

    >>> quotations("Mia reads `a.txt` and “Emma”.")
    Counter({'a.txt': 1, 'Emma': 1})
    """
    return Counter(found.group()[1:-1] for found in _QUOTED.finditer(text))
