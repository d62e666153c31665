"""What Japanese endings tell, and what tells nothing: read without a dictionary."""

from __future__ import annotations

import re
from collections.abc import Iterator

_HAN = "[\u3400-\u9fff々]+"
_HIRAGANA = re.compile("^[\u3041-\u309f]+$")
_VOICE = re.compile(f"({_HAN})[\u3041-\u309f]?([せれ])(?=[るたてまなず])")
_LAST_VERB = re.compile(f"({_HAN})(?![はがをにのとへ])([\u3041-\u309f]+)(?:[。!?！？]|$)")
_DONE = re.compile("た$|[んい]だ$")
_LIGHT = re.compile(
    "^(?:(?:し|す|され|させ|い|あ)(?:て|た|る|ま|っ|れ|$).*|な(?:っ|る|り).*|ところ.*|こと.*|もの.*"
    "|ため.*|よう.*|うち.*|とい.*|とし.*|によ.*|につい.*|よると.*|です.*|だ.*|ます.*|まし.*"
    "|これ|それ|この|その|ここ|そこ|また|そして|ら?れ[てたる].*)$"
)
"""Words in kana that state nothing by themselves."""
_MODAL = tuple(
    (key, re.compile(pattern))
    for key, pattern in (
        ("たい", "(?<=[いきしちにひみりぎじびえけせてねへめれげべ])(?:たい|たかった|たく)"),
        ("だろう", "だろう|でしょう|かもしれ|らしい"),
        ("べき", "べき|なければ|なくては|ないといけ"),
        ("つもり", "つもり|予定"),
    )
)
FORMAL_NOUNS = frozenset("間 事 物 者 旨 際 為 様子".split())
"""Kanji that phrases are made with, and which state nothing by themselves."""
SAME_IN_JAPANESE = {
    word: group.split()[0]
    for group in (
        "男性 男", "女性 女", "述 言 語", "スケートボード スケボー", "スマートフォン スマホ",
        "車 自動車", "電車 列車", "飛行機 航空機", "薬 医薬品", "会社 企業", "値段 価格",
        "昨年 去年", "今日 本日", "オートバイ バイク", "パソコン コンピューター",
        "走 駆", "海岸 海辺",
    )
    for word in group.split()
}  # fmt: skip
"""A word -> the one that stands for its group: a reader of one loses nothing."""


def is_ending(word: str, joined: bool) -> bool:
    """Whether a word in kana states nothing: the end of the word before it, or a light one."""
    return bool(_HIRAGANA.match(word)) and (joined or bool(_LIGHT.match(word)))


def conjugations(text: str) -> dict[str, str]:
    """Verbs by their kanji: done to, made to, done; as far as their endings tell."""
    marks = dict(_VOICE.findall(text))
    for stem, ending in _LAST_VERB.findall(text):
        marks[stem] = marks.get(stem, "") + ("<" if _DONE.search(ending) else ">")
    return marks


def modal_endings(text: str) -> Iterator[tuple[str, str]]:
    """What makes of a statement a wish, a guess, a duty, a plan: its kind, and how it is told."""
    for key, pattern in _MODAL:
        if found := pattern.search(text):
            yield key, found[0]
