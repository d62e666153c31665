"""The review over HTTP: who is let in, what each answer does, what is shown again."""

from __future__ import annotations

from collections.abc import Iterator

import httpx2
import pytest

from memory.models import Action, Decision, MergeGroup, Outcome, Refusal, Verdict
from memory.providers import OfflineModel
from memory.store import MemoryStore
from tests.conftest import MakeMemory
from tests.doubles import PlacedEmbedder, ScriptedModel
from tests.upkeep.serving import Browser, Served, served, text_of

RUNS = ("Mia is running 12 km.", "Mia is regularly running 12 km.")
SAILS = ("Mia sails.", "Mia dives.")
DONE, NOT_DONE = 200, 409
HOSTILE = "<img src=x onerror=alert(1)></script><script>alert(2)</script> \u202egnp"


@pytest.fixture
def filled(store: MemoryStore, embedder: PlacedEmbedder, make_memory: MakeMemory) -> MemoryStore:
    """A group that the rules can settle, and one that only a reader can."""
    for a, b, cosine in ((*RUNS, 0.97), (*SAILS, 0.93)):
        embedder.place(a)
        embedder.place(b, cosine, a)
    store.add_batch([make_memory(text, user="Mia") for text in (*RUNS, *SAILS)])
    return store


@pytest.fixture
def there(filled: MemoryStore) -> Iterator[Served]:
    with served(filled, OfflineModel()) as running:
        yield running


@pytest.fixture
def browser(there: Served) -> Iterator[Browser]:
    with there.browser() as opened:
        yield opened


def texts(store: MemoryStore) -> set[str]:
    return {memory.content for memory in store.memories()}


# --- who is let in ------------------------------------------------------------------------------


def test_without_token_or_from_another_place_nothing_is_answered_and_nothing_changes(
    there: Served, browser: Browser, filled: MemoryStore
) -> None:
    [number] = {len(filled.history())}
    origin = {"origin": there.url}
    before = filled.history()
    cookie = {"cookie": "; ".join(f"{k}={v}" for k, v in browser.client.cookies.items())}
    with httpx2.Client() as client:
        asked = [
            client.get(f"{there.url}/"),
            client.get(f"{there.url}/?token=guessed"),
            client.post(f"{there.url}/undo", json={"number": number}, headers=origin),
            client.post(f"{there.url}/undo", json={"number": number}, headers=cookie),
        ]
        for other in ("http://evil.example", "null", there.url.replace("http:", "https:")):
            sent = {**cookie, "origin": other}
            asked.append(client.post(f"{there.url}/invite", json={}, headers=sent))
            asked.append(client.get(f"{there.url}/history", headers=sent))
        own = f"127.0.0.1:{there.url.rpartition(':')[2]}"
        malformed = (f"evil.com@{own}", f"{own}/", f"{own}#x", f"x:y@{own}", f"{own}:", f"{own}?")
        others = ("evil.example", "evil.example:80", "127.0.0.1:1", "127.0.0.1", "[::")
        for host in (*others, *malformed):
            sent = {**cookie, **origin, "host": host}
            asked.append(client.post(f"{there.url}/invite", json={}, headers=sent))
            asked.append(client.get(there.session.address(), headers={"host": host}))
    assert {one.status_code for one in asked} == {403}
    assert filled.history() == before
    assert browser.say("keep_all").status_code == DONE


def test_the_token_works_once_and_becomes_a_cookie_that_no_script_reads(there: Served) -> None:
    address = there.session.address()
    with httpx2.Client() as client:
        first = client.get(address)
        cookie = first.headers["set-cookie"].lower()
        assert first.status_code == 303
        assert {"httponly", "samesite=strict", "path=/"} <= set(cookie.split("; "))
        assert "token" not in first.headers["location"]
    with httpx2.Client() as client:
        assert client.get(address).status_code == 403


def test_every_answer_forbids_foreign_scripts(there: Served, browser: Browser) -> None:
    with httpx2.Client() as client:
        refused = client.get(there.url)
    for one in (refused, browser.get("/"), browser.get("/page.js"), browser.get("/none")):
        policy = one.headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; style-src 'self'; script-src 'self'")
        assert "unsafe" not in policy
        assert one.headers["cache-control"] == "no-store"


def test_a_second_browser_is_asked_in_by_the_first(browser: Browser) -> None:
    address = browser.post("/invite", {}).json()["address"]
    with httpx2.Client(follow_redirects=True) as other:
        assert other.get(address).status_code == 200


# --- answers ------------------------------------------------------------------------------------


def test_each_answer_is_a_decision_by_a_person_and_the_last_is_taken_back(
    browser: Browser, filled: MemoryStore
) -> None:
    runs, sails = browser.card("12 km"), browser.card("dives")
    numbers = [
        browser.say("apply", runs).json()["number"],
        browser.say("keep_all", sails).json()["number"],
    ]
    assert texts(filled) == {RUNS[1], *SAILS}
    assert "Nothing is left" in browser.get("/").text
    assert [(one.action, one.model) for one in filled.history()] == [
        (Action.REPLACE, "person"), (Action.KEEP_BOTH, "person"),
    ]  # fmt: skip
    progress = browser.data()["progress"]
    assert progress == {"answered": 2, "left": 0, "later": 0, "last": numbers[1]}
    for number in reversed(numbers):
        said = browser.post("/undo", {"number": number, "reopen": True}).json()
    assert said["progress"] == {"answered": 0, "left": 2, "later": 0, "last": None}
    assert texts(filled) == {*RUNS, *SAILS}
    assert {one["key"] for one in browser.cards()} == {runs["key"], sails["key"]}


def test_a_card_says_in_one_line_each_what_speaks_for_joining_and_what_against(
    browser: Browser,
) -> None:
    runs, sails = browser.card("12 km"), browser.card("dives")
    said = 'all say "Mia is … running 12 km."; similarity 0.97; what stays states the rest'
    assert (runs["in_favour"], runs["against"]) == (said, 'one adds "regularly"')
    assert sails["against"] == '"sails" / "dives"; no text states all of the others'


def test_leaving_one_of_three_out_shows_first_what_becomes_of_the_others(
    filled: MemoryStore, embedder: PlacedEmbedder, make_memory: MakeMemory
) -> None:
    third = filled.add(make_memory(embedder.place("Mia runs 21 km.", 0.96, RUNS[0]), user="Mia"))
    with served(filled, OfflineModel()) as there, there.browser() as browser:
        card = browser.card("21 km")
        old = card["members"][0]["id"]
        assert browser.look(card, [third.id])["goes"] == [old]
        unlike = browser.say("apply", card, left_out=[third.id], retired=[third.id])
        assert unlike.json()["why"] == "the plan has changed since it was shown"
        said = browser.say("apply", card, left_out=[third.id], retired=[old])
        assert said.status_code == DONE
    assert texts(filled) == {RUNS[1], third.content, *SAILS}


def test_leaving_one_of_two_out_keeps_both(browser: Browser, filled: MemoryStore) -> None:
    """Whatever is proposed about the two: nothing of it would be done."""
    card = browser.look(browser.card("dives"))
    one = card["members"][0]["id"]
    browser.say("apply", card, card["proposal"]["token"], left_out=[one])
    assert texts(filled) == {*RUNS, *SAILS}
    assert filled.history()[-1].reason == "kept apart by a person"


def test_what_the_rules_leave_of_a_group_is_asked_next(
    filled: MemoryStore, embedder: PlacedEmbedder, make_memory: MakeMemory
) -> None:
    filled.add(make_memory(embedder.place("Mia runs 21 km.", 0.96, RUNS[0]), user="Mia"))
    with served(filled, OfflineModel()) as there, there.browser() as browser:
        card = browser.card("21 km")
        assert card["action"] == "replace + judge"
        [rest] = browser.say("apply", card).json()["more"]
    assert text_of(rest) == f"{RUNS[1]} | Mia runs 21 km."


def test_a_text_is_objected_to_and_stands_where_the_person_insists(
    browser: Browser, filled: MemoryStore
) -> None:
    card = browser.card("dives")
    said = "Mia sails, dives and climbs."
    answered = browser.say("apply", card, text=said)
    assert answered.status_code == NOT_DONE
    assert answered.json()["may_insist"]
    assert "climbs" in answered.json()["why"]
    assert texts(filled) == {*RUNS, *SAILS}
    assert browser.say("apply", card, text=said, insist=True).status_code == DONE
    assert texts(filled) == {*RUNS, said}
    assert filled.history()[-1].verified == "by a person"


def test_two_browsers_do_not_decide_one_group_twice(
    there: Served, browser: Browser, filled: MemoryStore
) -> None:
    with there.browser() as other:
        card = browser.card("12 km")
        assert other.say("apply", card).status_code == DONE
        decided = len(filled.history())
        assert browser.say("keep_all", card).status_code == NOT_DONE
        assert browser.say("apply", card).status_code == DONE, "the same answer is given already"
        assert browser.say("later", card).status_code == NOT_DONE
        assert len(filled.history()) == decided


def test_a_group_that_changed_is_shown_again(browser: Browser, filled: MemoryStore) -> None:
    card = browser.card("12 km")
    filled.update(card["members"][0]["id"], "Mia is running 13 km.")
    answered = browser.say("apply", card)
    assert answered.status_code == NOT_DONE
    said = answered.json()
    assert "has another text now" in said["why"]
    assert "13" in text_of(said["card"])
    assert said["card"]["key"] != card["key"]
    assert texts(filled) == {"Mia is running 13 km.", RUNS[1], *SAILS}


def test_a_model_is_asked_once_and_only_what_was_shown_is_applied(filled: MemoryStore) -> None:
    part = MergeGroup(members=(0, 1), text="Mia sails. Mia dives.")
    model = ScriptedModel(Verdict(parts=(part,)))
    with served(filled, model) as there, there.browser() as browser:
        assert browser.data()["judges"][1:] == ["scripted"]
        card = browser.card("dives")
        shown = browser.look(card)["proposal"]
        asked = browser.look(card, by="scripted")["proposal"]
        assert asked["texts"] == ["Mia sails. Mia dives."]
        assert len(model.asked) == 1
        assert browser.say("apply", card, shown["token"]).status_code == NOT_DONE
        assert browser.say("apply", card, asked["token"]).status_code == DONE
    assert texts(filled) == {*RUNS, "Mia sails. Mia dives."}
    told = filled.history()[-1]
    assert (told.model, told.verified) == ("person", "by a second reading")
    assert told.reason.startswith("applied by a person, as scripted proposed: ")


def test_blind_hides_similarity_and_plan_until_the_group_is_answered(filled: MemoryStore) -> None:
    with served(filled, OfflineModel(), blind=True) as there, there.browser() as browser:
        assert browser.data()["blind"]
        cards = browser.cards()
        for card in [*cards, *map(browser.look, cards)]:
            assert [one["fate"] for one in card["members"]] == ["", ""]
            assert not any(card.get(name) for name in ("alike", "reason", "against", "proposal"))
        for card in cards:
            assert browser.say("keep_all", card).status_code == DONE
        assert all(card["alike"] for card in browser.cards("/history"))


@pytest.mark.parametrize(
    ("answer", "action", "left"),
    [("same", Action.REPLACE, {RUNS[1]}), ("keep_all", Action.KEEP_BOTH, {*RUNS})],
)
def test_a_blind_yes_is_recorded_as_the_same_and_a_no_as_different(
    filled: MemoryStore, answer: str, action: Action, left: set[str]
) -> None:
    """Whatever the plan was that nobody saw."""
    with served(filled, OfflineModel(), blind=True) as there, there.browser() as browser:
        assert browser.say(answer, browser.card("12 km")).status_code == DONE
    told = filled.history()[-1]
    assert (told.action, told.model) == (action, "person")
    assert {text for text in texts(filled) if text in RUNS} == left


@pytest.mark.parametrize("stays", [0, 1])
def test_the_member_that_a_person_chooses_stands_for_the_others(
    browser: Browser, filled: MemoryStore, stays: int
) -> None:
    ids = {memory.content: memory.id for memory in filled.memories()}
    card = browser.card("Mia sails.")
    other = browser.say("same", card, stays="mem_000000000000")
    assert "cannot stay" in other.json()["why"]
    browser.say("same", card, stays=ids[SAILS[stays]])
    assert texts(filled) == {*RUNS, SAILS[stays]}
    told = filled.history()[-1]
    assert told.reason == "chosen by a person to stand for the others"
    assert told.survivors == ((ids[SAILS[stays]], (ids[SAILS[1 - stays]],)),)


def test_a_question_left_for_later_comes_last_and_is_answered_among_the_open_ones(
    browser: Browser, filled: MemoryStore
) -> None:
    first = browser.cards()[0]
    browser.say("later", first)
    assert [card["key"] for card in browser.cards()][1:] == [first["key"]]
    [card] = browser.cards("/questions")
    assert card["action"] == "later"
    assert browser.say("keep_all", card).status_code == DONE
    assert browser.cards("/questions") == []
    assert filled.history()[-1].reason == "kept apart by a person"


def test_a_refused_text_is_shown_and_taken_all_the_same(
    store: MemoryStore, make_memory: MakeMemory
) -> None:
    members = tuple(store.add(make_memory(f"Mia rows {what}.")) for what in ("daily", "far"))
    refusal = Refusal(
        members=tuple(member.id for member in members),
        text="Mia rows daily & far.",
        by="a second reading",
        why="the merged text loses: whose boat",
        key="k",
    )
    decision = Decision(Action.KEEP_BOTH, "refused", members, pending=True, refused=(refusal,))
    assert isinstance(store.apply(decision), Outcome)
    with served(store, OfflineModel()) as there, there.browser() as browser:
        [card] = browser.cards("/questions")
        [refused] = card["recorded"]["refused"]
        assert refused["why"] == "the merged text loses: whose boat"
        browser.say("apply", card, text=refused["text"], insist=True)
    assert [memory.content for memory in store.memories()] == ["Mia rows daily & far."]
    assert store.counts().refused == 1


# --- conflicts ----------------------------------------------------------------------------------

PORTO, LISBON = "Mia lives in Porto.", "Mia lives in Lisbon."


@pytest.mark.parametrize(
    ("holds", "left", "action"),
    [
        ("newer", {LISBON}, Action.SUPERSEDE),
        ("older", {PORTO}, Action.SUPERSEDE),
        ("both", {PORTO, LISBON}, Action.KEEP_BOTH),
    ],
)
def test_a_person_says_which_of_two_holds_and_may_take_it_back(
    store: MemoryStore, make_memory: MakeMemory, holds: str, left: set[str], action: Action
) -> None:
    ids = [store.add(make_memory(text, user="Mia")).id for text in (PORTO, LISBON)]
    pair = dict(zip(("older", "newer"), ids, strict=True))
    with served(store, OfflineModel()) as there, there.browser() as browser:
        [card] = browser.cards("/conflicts")
        assert [one["id"] for one in card["members"]] == ids
        said = browser.post("/conflict", {**pair, "holds": holds}).json()
        assert texts(store) == left
        assert browser.cards("/conflicts") == []
        record = store.history()[-1]
        assert (record.number, record.action, record.model) == (said["number"], action, "person")
        browser.post("/undo", {"number": said["number"], "reopen": True})
        assert len(browser.cards("/conflicts")) == 1
    assert texts(store) == {PORTO, LISBON}


def test_what_would_be_lost_is_named_until_the_person_insists(
    store: MemoryStore, make_memory: MakeMemory
) -> None:
    texts_ = "Mia lives in Porto and has two cats.", LISBON
    ids = [store.add(make_memory(text, user="Mia")).id for text in texts_]
    asked = {"older": ids[0], "newer": ids[1], "holds": "newer"}
    with served(store, OfflineModel()) as there, there.browser() as browser:
        said = browser.post("/conflict", asked)
        assert said.status_code == NOT_DONE
        assert "two cats" in said.json()["why"]
        assert said.json()["may_insist"]
        assert browser.post("/conflict", {**asked, "insist": True}).status_code == DONE
        gone = browser.post("/conflict", asked).json()["why"]
    assert "retired or forgotten" in gone
    assert texts(store) == {LISBON}


# --- what is shown ------------------------------------------------------------------------------


def test_similarity_is_rounded_here_as_it_is_everywhere(browser: Browser) -> None:
    """In float32 a cosine of 0.93 is a little less."""
    alike = {card["alike"] for card in browser.cards()}
    for card in browser.cards():
        browser.say("keep_all", card)
    assert alike == {card["alike"] for card in browser.cards("/history")} == {"0.93", "0.97"}


def test_a_hostile_text_is_only_ever_text(
    store: MemoryStore, embedder: PlacedEmbedder, make_memory: MakeMemory
) -> None:
    long = HOSTILE + " long" * 600
    embedder.place(HOSTILE)
    embedder.place(long, 0.93, HOSTILE)
    made = [store.add(make_memory(text, user="<b>Mia</b>\u202e")) for text in (HOSTILE, long)]
    with served(store, OfflineModel()) as there, there.browser() as browser:
        [card] = browser.cards()
        pages = [browser.get("/").text]
        browser.say("apply", card, text=HOSTILE, insist=True)
        pages += [browser.get(f"/{name}").text for name in ("history", "questions", "conflicts")]
        pages.append(browser.get(f"/memory/{made[1].id}").text)
        pages.append(browser.get("/memory/<img src=x>").text)
    for page in pages:
        assert "<img" not in page
        assert "<script>" not in page
        assert "<b>" not in page
        assert "\u202e" not in page


def test_one_memorys_lineage_shows_every_wording_and_decision(
    browser: Browser, filled: MemoryStore
) -> None:
    browser.say("apply", browser.card("12 km"))
    kept = next(memory for memory in filled.memories() if memory.content == RUNS[1])
    wordings, *decisions = browser.cards(f"/memory?id={kept.id}")
    assert [(one["fate"], "".join(one["text"])) for one in wordings["members"]] == [
        ("retire", RUNS[0]), ("keep", RUNS[1]),
    ]  # fmt: skip
    assert [card["recorded"]["by"] for card in decisions][-1:] == ["a person"]
    retired = next(name for name in filled.history()[-1].members if name != kept.id)
    assert f"{kept.id} stands for it today" in browser.get(f"/memory/{retired}").text
    assert browser.get("/memory/mem_none").status_code == 404


def test_a_decision_in_the_history_is_taken_back_and_its_members_stay_apart(
    browser: Browser, filled: MemoryStore
) -> None:
    number = browser.say("apply", browser.card("12 km")).json()["number"]
    assert browser.cards("/history")[0]["recorded"]["number"] == number
    assert browser.post("/undo", {"number": number}).status_code == DONE
    assert texts(filled) == {*RUNS, *SAILS}
    assert not any("12 km" in text_of(card) for card in browser.cards())
    assert browser.post("/undo", {"number": number}).status_code == NOT_DONE


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/answer", {}),
        ("/answer", {"answer": {"key": "x", "answer": "perhaps", "members": []}}),
        ("/answer", {"answer": {"key": "x" * 3_000_000}}),
        ("/look", {"key": "none", "by": "nobody"}),
        ("/undo", {"number": 999999999999}),
        ("/conflict", {"older": "a", "newer": "b", "holds": "none"}),
        ("/history?below=x", None),
        ("/nothing", None),
    ],
)
def test_nonsense_is_answered_in_words(
    browser: Browser, filled: MemoryStore, path: str, body: object
) -> None:
    answered = browser.get(path) if body is None else browser.post(path, body)
    assert answered.status_code in (200, 404, 409)
    assert body is None or answered.json()["why"]
    assert texts(filled) == {*RUNS, *SAILS}
