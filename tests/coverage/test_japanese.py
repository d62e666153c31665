"""Japanese by a dictionary: what is told the same, what only adds, what changes."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from memory.coverage.covers import Comparison, compare, covers
from memory.coverage.japanese import japanese_tokens

SAME = [
    ("ミアは犬が好きだ。", "ミアは犬が好きです。"),
    ("田中さんは医者です。", "田中は医者だ。"),
    ("ミアは医者である。", "ミアは医者です。"),
    ("男性がバイクに乗っている。", "男がオートバイに乗っている。"),
]
CHANGED = [
    ("ミアは引っ越す。", "ミアは引っ越すだろう。"),
    ("ミアは引っ越すまい。", "ミアは引っ越さない。"),
    ("ミアは来る。", "ミアはきっと来る。"),
    ("ミアはあまり食べない。", "ミアはあまりに食べない。"),
    ("ミアは病気で休んだ。", "ミアは病気なので休んだ。"),
    ("ミアは海辺に住んでいる。", "ミアは海岸に住んでいる。"),
    ("ミアは肉を食べる。", "ミアは肉を食べない。"),
    ("ミアは泳ぐ。", "ミアは泳げる。"),
    ("ミアはレオを叩いた。", "ミアはレオに叩かれた。"),
    ("ミアは本を読む。", "ミアはレオに本を読ませる。"),
    ("ミアは引っ越す。", "ミアは引っ越すかもしれない。"),
    ("ミアは引っ越す。", "ミアは引っ越すらしい。"),
    ("ミアは引っ越す。", "ミアは引っ越すつもりだ。"),
    ("ミアは引っ越す。", "ミアは引っ越したい。"),
    ("ミアは家にいる。", "雨が降れば、ミアは家にいる。"),
    ("ミアは魚を食べない。", "ミアはほとんど魚を食べない。"),
    ("ミアが来る。", "たぶんミアが来る。"),
    ("ミアは金持ちだ。", "自称ミアは金持ちだ。"),
    ("ベラが泳いでいる。", "ベラが泳いでいるレオに会った。"),
    ("ベラがレオを叩いている。", "ベラがレオを叩いているミアを見ている。"),
    ("ベラが手紙を見た。", "ベラが手紙を書いているレオを見た。"),
    ("ミアは東京に住んでいる。", "ミアの姉は東京に住んでいる。"),
    ("本は机の上にある。", "本は机の下にある。"),
    ("ミアは五時まで働く。", "ミアは五時までに働く。"),
    ("ミアは土曜日に働かない。", "ミアは土曜日にしか働かない。"),
    ("ミアはレオが好きです。", "レオはミアが好きです。"),
    ("ミアは赤い帽子と青い靴を買った。", "ミアは青い帽子と赤い靴を買った。"),
    ("猫が鳥を追って、魚をくわえている。", "猫が魚を追って、鳥をくわえている。"),
    ("部屋に机があり、庭に犬がいる。", "部屋に犬がいて、庭に机がある。"),
    ("ミアは忙しいと述べた。", "ミアは忙しいと述べていない。"),
    ("ミアは本を書いた。", "ミアは本を書いている。"),
    ("ミアは泳がない。", "ミアは川を泳がない。"),
    ("男性が歌っている。", "女性が歌っている。"),
    ("医者である父が来た。", "医者の父が来た。"),
    ("窓が開けてある。", "窓を開ける。"),
]


@pytest.mark.parametrize(("a", "b"), SAME)
def test_wordings_that_say_the_same_are_told_one_way(a: str, b: str) -> None:
    assert compare(a, b) == Comparison((), ())


@pytest.mark.parametrize(("a", "b"), CHANGED)
def test_a_reversed_statement_is_detected(a: str, b: str) -> None:
    assert not covers(a, b)
    assert not covers(b, a)


def test_an_inflected_word_is_named_by_its_normal_form() -> None:
    found = japanese_tokens("ミアは遊んでいませんでした。")
    assert found is not None
    assert [token.key for token in found[:4]] == ["ミア", "は", "遊ぶ", "ている"]


def test_a_document_is_read_without_a_dictionary() -> None:
    assert japanese_tokens("ミアは泳ぐ。" * 5_000) is None


def test_without_a_dictionary_nothing_is_believed_that_would_not_be_with_it() -> None:
    """Fewer additions are seen, and nothing that changes is taken for one."""
    code = (
        "import json, sys; sys.modules['sudachipy'] = None\n"
        "from memory.coverage import covers\n"
        "from memory.coverage.japanese import japanese_tokens\n"
        "assert japanese_tokens('ミアは泳ぐ。') is None\n"
        "pairs = json.loads(sys.stdin.read())\n"
        "print(json.dumps([covers(a, b) or covers(b, a) for a, b in pairs]))"
    )
    run = subprocess.run(
        [sys.executable, "-c", code],
        input=json.dumps(CHANGED),
        capture_output=True,
        text=True,
        check=True,
    )
    assert not any(json.loads(run.stdout))
