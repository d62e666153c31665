"""The time words of Japanese; `TimeWords` explains the fields.

Japanese has no spaces, so one pattern finds the words. What stands before and after them decides
whether they are words of time: 明日香 and 今日子 are names.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from memory.text.times.words import TimeWords, Verbs, WordRow

JAPANESE = TimeWords(
    table={
        "day": {
            0: "今日|本日|きょう", 1: "明日|あした", -1: "昨日|きのう", 2: "明後日|あさって",
            -2: "一昨日|おととい",
        },
        "day and part": {
            (0, "morning"): "今朝|けさ", (0, "evening"): "今晩|今夜|今夕",
            (-1, "night"): "昨夜|昨晩|ゆうべ", (1, "morning"): "明朝", (1, "evening"): "明晩",
        },
        "part": {
            "morning": "朝|午前", "afternoon": "午後|昼", "evening": "夜|夕方|晩",
            "night": "深夜|夜中",
        },
        "unit": {"week": "の週", "weekend": "週末|の週末"},
        "season": {0: "春", 1: "夏", 2: "秋", 3: "冬"},
        "holiday": {
            "new year": "正月|お正月", "new year's day": "元日|元旦", "new year's eve": "大晦日",
            "christmas day": "クリスマス", "christmas eve": "クリスマスイブ|クリスマス・イブ",
        },
        "which": {
            "last": "前の|この前の|こないだの", "this": "この", "next": "次の",
            "coming": "今度の",
        },
        "which unit": {
            ("week", -1): "先週", ("week", 0): "今週", ("week", 1): "来週", ("week", 2): "再来週",
            ("week", -2): "先々週|先先週", ("month", -1): "先月", ("month", 0): "今月",
            ("month", 1): "来月", ("month", 2): "再来月", ("month", -2): "先々月",
            ("year", -1): "去年|昨年", ("year", 0): "今年|本年|ことし", ("year", 1): "来年",
            ("year", 2): "再来年", ("year", -2): "一昨年|おととし",
            ("fiscal year", 0): "今年度", ("fiscal year", 1): "来年度",
            ("fiscal year", -1): "昨年度|前年度", ("weekend", 0): "今週末",
            ("weekend", -1): "先週末", ("weekend", 1): "来週末",
        },
        "event": {"": "その"},
        "event time": {
            "": "翌日|翌朝|翌週|翌月|翌年|翌々日|前日|当日|その日|その夜|その朝|その年|その週"
                "|その月|その後|その前|次の日|次の週|次の朝|次の年|次の月|前の日|前の週|前の年|同じ日"
                "|あの日"
        },
        "every": {"": "毎週|毎年|毎月|毎日|毎朝|毎晩|毎"},
        "recently": {"": "最近|先日|この間|この前|こないだ|近頃|このごろ"},
        "soon": {"": "もうすぐ|まもなく|間もなく|そのうち|近々|近いうち"},
        "of": {"": "の"},
        "other": {
            "": "明日香|明日美|明日菜|明日奈|明日葉|明日花|明日海|明日子|明日実|明日華|明日加"
                "|明日翔|今日子|今日香|今日平|昨日今日|今日この頃|今日的|今日日|明日は我が身"
                "|日曜大工|昼間|春巻|春雨|春菊|秋刀魚|夏目|夏美|夏希|夏子|春子|春香|春樹|春奈"
                "|秋子|秋田|秋葉|秋山|冬子|冬美|冬樹|千秋|千春|千夏|青春|小春|小夏|美夏|美冬"
                "|真冬|真夏|朝食|昼食|夕食|夜食|朝ご飯|昼ご飯|夜ご飯|夕ご飯|今後|今回|今ごろ"
                "|今も|今は|今では"
        },
    },
    common=frozenset(),
    past=Verbs(words=frozenset({"past"})),
    future=Verbs(words=frozenset({"future"})),
    present=frozenset({"doubt"}),
    reports=frozenset({"report"}),
    reports_follow=True,
    recurring=frozenset({"again"}),
    bare="KMSHU",
    sunday_first=True,
)  # fmt: skip

_NUMBER = r"[0-9０-９]{1,3}|[一二三四五六七八九十]{1,3}|数"
_UNITS = {
    "日": "day", "週間": "week", "週": "week", "年": "year", "時間": "hour", "分": "minute"
} | dict.fromkeys(("か月", "ヶ月", "カ月", "ヵ月", "ケ月", "箇月"), "month")  # fmt: skip
_UNIT = "|".join(_UNITS)
_WEEKDAYS = "月火水木金土日"
_BEFORE_TA = "っいんしえけべめせれてきじぎちりみび"
_FOLLOWED = r"(?=[にのはもがをとへまで、。\s]|から|朝|夜|午|晩|夕|休|$)"


def _bounded(word: str) -> str:
    """Return the pattern for a word: きょう is not in べんきょう, nor 前の日 in 前の日曜日."""
    if word in ("きょう", "きのう", "あした"):
        return rf"(?<![ぁ-ん]){word}(?=[はもにの、一-龠ァ-ヴ])"
    return f"{word}(?!曜)" if word.endswith("日") else word


_IN_KANA = [
    *(word for word in JAPANESE.words if "ぁ" <= word[0] <= "ん"),
    *"あと と言 と話 と聞 と語 と述 と思 との らし ずれ つも だろ でし たい まし".split(),
    *(f"{sign}た" for sign in _BEFORE_TA),
]
_FIRST = "".join(sorted({word[0] for word in _IN_KANA}))
_SECOND = "".join(sorted({word[1:2] for word in _IN_KANA}))
_SIGNS = "".join({word[0] for word in JAPANESE.words if not "ぁ" <= word[0] <= "ん"})
_STARTS = (
    rf"[{_SIGNS}0-9０-９〇一二三四五六七八九十数半{_WEEKDAYS}春夏秋冬誕記生毎延変決予移]"
    r"|[。！？!?\n、,（）()「」『』]|[一-龠](?=んだ)"
    rf"|[{_FIRST}](?=[{_SECOND}])"
    rf"|[{''.join(word for word in _IN_KANA if len(word) == 1)}]"
)
"""Matches where a word may start, so that most places of a text are passed over fast."""
_WORD = re.compile(
    rf"(?={_STARTS})(?:"
    rf"(?P<year>[0-9]{{4}}|[〇一二三四五六七八九]{{4}})年(?P<year_since>から|以来)?(?!生まれ)"
    rf"|(?P<month>{_NUMBER})月(?!曜)"
    rf"|(?P<left>あと)?(?P<count>{_NUMBER}|半(?=年))(?P<unit>{_UNIT})(?P<half>半)?"
    r"(?:間|ほど|くらい|ぐらい)*(?P<side>前|後(?!半)|(?<=.)(?=で))(?P<since>から)?"
    rf"|(?P<day>{_NUMBER})日(?!間|本|前|後|曜)"
    rf"|(?P<age>{_NUMBER})[歳才](?!に|の?[時頃とこ]|の誕|で(?!す)|から|まで|以|未)"
    rf"|(?P<weekday>[{_WEEKDAYS}])曜日?{_FOLLOWED}"
    r"|(?P<report>と(?:言|話|聞|語|述べ|思)|とのこと|らしい)|(?P<again>誕生日|記念日|生まれ|毎年)"
    r"|(?P<doubt>延期|変更|変わっ|決ま|予約|移っ|ずれ)"
    r"|(?P<future>予定|つもり|だろう|でしょう|たい(?=[。、と]|$))"
    rf"|(?P<past>(?:[{_BEFORE_TA}]た|でした|ました|[一-龠]んだ)(?=[。！!\s」]|$))"
    rf"|(?P<season>[春夏秋冬]){_FOLLOWED}"
    r"|(?P<stop>[。！？!?\n]+)|(?P<comma>[、,（）()「」『』])|(?P<listed>%s))"
    % "|".join(map(_bounded, sorted(JAPANESE.words, key=len, reverse=True)))
)
_HAN = {sign: value for value, sign in enumerate("〇一二三四五六七八九")}


def japanese_row(text: str) -> WordRow:
    """Read a Japanese text; what lies between two words of the table is one other word."""
    words: list[tuple[str, tuple[str, Any], tuple[int, int]]] = []
    end = 0
    for found in _WORD.finditer(text):
        if found.start() > end:
            words.append((text[end : found.start()], (".", None), (end, found.start())))
        end = found.end()
        surface = _MARKS.get(found.lastgroup or "", found[0])
        words += [(surface, entry, found.span()) for entry in _sorts(found)]
    if end < len(text):
        words.append((text[end:], (".", None), (end, len(text))))
    spans = [word[2] for word in words]
    return WordRow(text, JAPANESE, [w[0] for w in words], [w[1] for w in words], lambda: spans)


_MARKS = {name: name for name in ("report", "again", "doubt", "future", "past")}


def _sorts(found: re.Match[str]) -> Iterator[tuple[str, Any]]:
    """Yield the sorts of a match, each with its value."""
    if found["count"]:
        yield from _counted(found)
    elif found["year"]:
        yield ("C" if found["year_since"] else "L"), ""
        yield "Y", _value(found["year"])
    elif found["age"]:
        yield from (("N", _value(found["age"])), ("U", "year"), ("O", ""))
    elif found["month"] or found["day"]:
        yield ("M" if found["month"] else "n"), _value(found["month"] or found["day"])
    elif found["weekday"]:
        yield "K", _WEEKDAYS.index(found["weekday"])
    elif found["season"]:
        yield JAPANESE.words[found["season"]]
    elif found["listed"]:
        yield JAPANESE.words[found["listed"]]
    else:
        yield {"stop": ";", "comma": ","}.get(found.lastgroup or "", "."), None


def _counted(found: re.Match[str]) -> Iterator[tuple[str, Any]]:
    is_vague = found["count"] == "数" or found["half"]
    if found["count"] == "半":
        yield "h", ""
        yield "U", "year"
        yield "A" if found["side"] == "前" else "J", ""
        return
    if not found["side"]:
        yield ("I" if found["left"] else "."), ""
    yield ("V", "") if is_vague else ("N", _value(found["count"]))
    yield "U", _UNITS[found["unit"]]
    if found["side"]:
        yield ("A" if found["side"] == "前" else "J"), ""
    if found["since"]:
        yield "c", ""


def _value(number: str) -> int:
    if number.isdecimal():
        return int(number)
    if len(number) == 4:  # 二〇二六
        return int("".join(str(_HAN[sign]) for sign in number))
    tens, ten, ones = number.rpartition("十")
    return (_HAN.get(tens, 1) * 10 if ten else 0) + _HAN.get(ones, 0)
