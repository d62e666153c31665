"""The review over HTTP: who is let in, what each answer does, what is shown again."""

from __future__ import annotations

import re
from collections.abc import Iterator

import httpx2
import pytest

from memory.models import Action, Decision, MergeGroup, Outcome, Refusal, Verdict
from memory.offline import OfflineModel
from memory.store import MemoryStore
from tests.conftest import MakeMemory
from tests.doubles import PlacedEmbedder, ScriptedModel
from tests.review.serving import Browser, Fields, Served, hidden, served

RUNS = ("Mia runs 12 km.", "Mia runs 12 km on Sundays.")
SAILS = ("Mia sails.", "Mia dives.")
NOT_DONE = 200
"""A page that says why; what is done leads on to the next group."""
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


def of(browser: Browser, text: str) -> dict[str, str | list[str]]:
    """The fields of the group in which a text stands."""
    for _ in range(4):
        page = browser.get("/").text
        if text in page:
            return hidden(page)
        browser.say("later")
    raise AssertionError(text)


# --- who is let in ------------------------------------------------------------------------------


def test_without_token_or_from_another_place_nothing_is_answered_and_nothing_changes(
    there: Served, browser: Browser, filled: MemoryStore
) -> None:
    card = {**browser.card(), "answer": "keep_all"}
    origin = {"origin": there.url}
    before = filled.history()
    cookie = {"cookie": "; ".join(f"{k}={v}" for k, v in browser.client.cookies.items())}
    with httpx2.Client() as client:
        asked = [
            client.get(f"{there.url}/"),
            client.get(f"{there.url}/?token=guessed"),
            client.post(f"{there.url}/answer", data=card, headers=origin),
            client.post(f"{there.url}/answer", data=card, headers=cookie),
        ]
        for other in ("http://evil.example", "null", there.url.replace("http:", "https:")):
            sent = {**cookie, "origin": other}
            asked.append(client.post(f"{there.url}/answer", data=card, headers=sent))
            asked.append(client.get(f"{there.url}/history", headers=sent))
        own = f"127.0.0.1:{there.url.rpartition(':')[2]}"
        malformed = (f"evil.com@{own}", f"{own}/", f"{own}#x", f"x:y@{own}", f"{own}:", f"{own}?")
        others = ("evil.example", "evil.example:80", "127.0.0.1:1", "127.0.0.1", "[::")
        for host in (*others, *malformed):
            sent = {**cookie, **origin, "host": host}
            asked.append(client.post(f"{there.url}/answer", data=card, headers=sent))
            asked.append(client.get(there.session.address(), headers={"host": host}))
    assert {one.status_code for one in asked} == {403}
    assert filled.history() == before
    assert browser.say("keep_all", card) == 303


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
    for one in (refused, browser.get("/"), browser.get("/review.js"), browser.get("/none")):
        policy = one.headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; style-src 'self'; script-src 'self'")
        assert "unsafe" not in policy
        assert one.headers["cache-control"] == "no-store"


def test_a_second_browser_is_asked_in_by_the_first(there: Served, browser: Browser) -> None:
    page = browser.post("/invite").text
    address = page.partition("<code>")[2].partition("</code>")[0]
    with httpx2.Client(follow_redirects=True) as other:
        assert other.get(address).status_code == 200


# --- answers ------------------------------------------------------------------------------------


def test_each_answer_is_a_decision_by_a_person_and_the_last_is_taken_back(
    browser: Browser, filled: MemoryStore
) -> None:
    assert browser.say("apply", of(browser, "12 km")) == 303
    assert texts(filled) == {RUNS[1], *SAILS}
    assert browser.say("keep_all", of(browser, "dives")) == 303
    assert browser.get("/history").text.count("Take back decision") >= 2
    page = browser.get("/").text
    assert "Nothing is left" in page
    told = [one for one in filled.history() if not one.left_for_later]
    assert [(one.action, one.model) for one in told] == [
        (Action.REPLACE, "person"), (Action.KEEP_BOTH, "person"),
    ]  # fmt: skip
    for _ in range(2):
        browser.post("/back")
    assert texts(filled) == {*RUNS, *SAILS}
    assert "12 km" in browser.get("/").text


def test_taking_back_is_offered_while_there_is_an_answer(browser: Browser) -> None:
    assert "Undo the last" not in browser.get("/").text
    browser.say("keep_all")
    assert "Undo the last" in browser.get("/").text
    browser.post("/back")
    assert "Undo the last" not in browser.get("/").text


def test_leaving_one_of_three_out_shows_first_what_becomes_of_the_others(
    filled: MemoryStore, embedder: PlacedEmbedder, make_memory: MakeMemory
) -> None:
    third = filled.add(make_memory(embedder.place("Mia runs 21 km.", 0.96, RUNS[0]), user="Mia"))
    with served(filled, OfflineModel()) as there, there.browser() as browser:
        card = of(browser, "21 km")
        narrowed = browser.post("/answer", {**card, "answer": "apply", "left_out": third.id})
        assert "left out" in narrowed.text
        assert len(texts(filled)) == 5
        fields = {**hidden(narrowed.text), "left_out": third.id}
        assert browser.say("apply", fields) == 303
    assert texts(filled) == {RUNS[1], third.content, *SAILS}


def test_leaving_one_of_two_out_keeps_both(browser: Browser, filled: MemoryStore) -> None:
    """Whatever is proposed about the two: nothing of it would be done."""
    card = of(browser, "dives")
    one = str(card["member"][0]).partition(":")[0]
    assert "proposal" in card
    assert browser.say("apply", card, left_out=one) == 303
    assert texts(filled) == {*RUNS, *SAILS}
    assert filled.history()[-1].reason == "kept apart by a person"


def test_a_text_is_objected_to_and_stands_where_the_person_insists(
    browser: Browser, filled: MemoryStore
) -> None:
    card = of(browser, "dives")
    said = "Mia sails, dives and climbs."
    answered = browser.post("/answer", {**card, "answer": "text", "text": said})
    assert answered.status_code == NOT_DONE
    assert "climbs" in answered.text.partition("Not done:")[2]
    assert said in answered.text
    assert texts(filled) == {*RUNS, *SAILS}
    assert browser.say("text", card, text=said, insist="1") == 303
    assert texts(filled) == {*RUNS, said}
    assert [one.verified for one in filled.history()][-1] == "by a person"


def test_an_empty_text_is_refused_in_words(browser: Browser, filled: MemoryStore) -> None:
    answered = browser.post("/answer", {**browser.card(), "answer": "text", "text": " "})
    assert answered.status_code == NOT_DONE
    assert "content is empty" in answered.text


def test_two_browsers_do_not_decide_one_group_twice(
    there: Served, browser: Browser, filled: MemoryStore
) -> None:
    with there.browser() as other:
        card = of(browser, "12 km")
        assert other.say("apply", card) == 303
        decided = len(filled.history())
        assert browser.say("keep_all", card) == NOT_DONE
        assert browser.say("apply", card) == 303, "the same answer is given already"
        assert browser.say("later", card) == NOT_DONE
        assert len(filled.history()) == decided


def test_a_group_that_changed_is_shown_again(browser: Browser, filled: MemoryStore) -> None:
    card = of(browser, "12 km")
    old = next(memory for memory in filled.memories() if memory.content == RUNS[0])
    filled.update(old.id, "Mia runs 13 km.")
    answered = browser.post("/answer", {**card, "answer": "apply"})
    assert answered.status_code == NOT_DONE
    assert "has another text now" in answered.text
    assert "13" in answered.text
    assert "shown_without" not in hidden(answered.text)
    assert hidden(answered.text)["key"] != card["key"]
    assert texts(filled) == {"Mia runs 13 km.", RUNS[1], *SAILS}


def test_a_model_is_asked_once_and_only_what_was_shown_is_applied(
    filled: MemoryStore, model: ScriptedModel
) -> None:
    part = MergeGroup(members=(0, 1), text="Mia sails. Mia dives.")
    model = ScriptedModel(Verdict(parts=(part,)))
    with served(filled, model) as there, there.browser() as browser:
        card = of(browser, "dives")
        asked = browser.post("/propose", {"key": card["key"], "by": "scripted"})
        assert "Mia sails. Mia dives." in asked.text
        assert len(model.asked) == 1
        assert browser.say("apply", card) == NOT_DONE, "another proposal was shown there"
        assert browser.say("apply", hidden(asked.text)) == 303
    assert texts(filled) == {*RUNS, "Mia sails. Mia dives."}
    told = filled.history()[-1]
    assert (told.model, told.verified) == ("person", "by a second reading")
    assert told.reason.startswith("applied by a person, as scripted proposed: ")


def test_blind_hides_similarity_and_plan_until_the_group_is_answered(filled: MemoryStore) -> None:
    with served(filled, OfflineModel(), blind=True) as there, there.browser() as browser:
        for _ in range(2):
            page = browser.get("/").text
            shown = page.partition("<main>")[2].partition('id="answer"')[2]
            assert "similarity" not in shown
            assert "Reason" not in shown
            assert "proposes" not in shown
            assert not any(
                f'fate">{fate}' in shown for fate in ("stays", "goes", "needs a decision")
            )
            assert not any(hidden in shown for hidden in ('name="retired"', 'name="proposal"'))
            card = hidden(page)
            assert browser.say("keep_all", card) == 303
        assert "Nothing is left" in browser.get("/").text
        assert "0.9" in browser.get("/history").text


@pytest.mark.parametrize(
    ("answer", "action", "left"),
    [("same", Action.REPLACE, {RUNS[1]}), ("keep_all", Action.KEEP_BOTH, {*RUNS})],
)
def test_a_blind_yes_is_recorded_as_the_same_and_a_no_as_different(
    filled: MemoryStore, answer: str, action: Action, left: set[str]
) -> None:
    """Whatever the plan was that nobody saw."""
    with served(filled, OfflineModel(), blind=True) as there, there.browser() as browser:
        assert browser.say(answer, of(browser, "12 km")) == 303
    told = filled.history()[-1]
    assert (told.action, told.model) == (action, "person")
    assert {text for text in texts(filled) if text in RUNS} == left


@pytest.mark.parametrize("stays", [0, 1])
def test_the_member_that_a_person_chooses_stands_for_the_others(
    browser: Browser, filled: MemoryStore, stays: int
) -> None:
    ids = {memory.content: memory.id for memory in filled.memories()}
    card = of(browser, "Mia sails.")
    browser.post("/answer", {**card, "stays": ids[SAILS[stays]]})
    assert texts(filled) == {*RUNS, SAILS[stays]}
    told = filled.history()[-1]
    assert told.reason == "chosen by a person to stand for the others"
    assert told.survivors == ((ids[SAILS[stays]], (ids[SAILS[1 - stays]],)),)
    before = filled.history()
    browser.post("/answer", card)
    browser.post("/answer", {**card, "answer": "look"})
    assert filled.history() == before
    other = {**card, "stays": "mem_000000000000"}
    assert "cannot stay" in browser.post("/answer", other).text


def test_groups_are_filtered_by_similarity_and_state_and_say_where_one_is(browser: Browser) -> None:
    listed = dict(re.findall(r'/group/(\w+)"><bdi>Mia (\w+)', browser.get("/groups").text))
    [sails] = [key for key, verb in listed.items() if verb == "dives"]
    page = browser.get(f"/groups?at={sails}").text
    assert page.count("similarity 0.") == 2
    assert page.count("you are here") == 1
    assert "similarity 0.93" in page.partition("you are here")[0].rpartition("<li")[2]
    assert browser.get("/groups?low=0.95").text.count("similarity 0.97") == 1
    assert "similarity 0.93" not in browser.get("/groups?low=0.95").text
    browser.say("later", hidden(browser.get(f"/group/{sails}").text))
    assert f"/group/{sails}" in browser.get("/groups?state=later").text
    assert f"/group/{sails}" not in browser.get("/groups?state=rules").text


def test_an_open_question_is_answered_where_it_is_shown(
    browser: Browser, filled: MemoryStore
) -> None:
    browser.say("later", of(browser, "Mia sails."))
    page = browser.get("/questions").text
    assert "Left for later" in page
    assert "Kept apart" not in page
    form = page.partition('action="/answer"')[2].partition("</form>")[0]
    fields: Fields = {"key": re.findall(r'name="key" value="(\w+)"', form)[0], "back": "questions"}
    fields["member"] = re.findall(r'name="member" value="([\w:]+)"', form)
    done = browser.post("/answer", {**fields, "answer": "keep_all"})
    assert "Pending: 0" in done.text
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
        page = browser.get("/questions").text
        assert "Mia rows daily &amp; far." in page
        assert "loses: whose boat" in page
        form = page.partition("Take the refused text")[0].rpartition("<form")[2]
        fields = hidden(f'id="answer"{form}</form>')
        browser.post("/answer", {**fields, "answer": "text"})
    assert [memory.content for memory in store.memories()] == ["Mia rows daily & far."]
    assert store.counts().refused == 1


# --- what is shown ------------------------------------------------------------------------------


def test_similarity_is_rounded_here_as_it_is_everywhere(browser: Browser) -> None:
    """In float32 a cosine of 0.93 is a little less."""
    for answer in ("keep_all", "keep_all"):
        assert re.search(r"similarity 0\.9[37]", browser.get("/").text)
        browser.say(answer)
    told = browser.get("/history").text
    assert "similarity 0.93" in told
    assert "similarity 0.97" in told


def test_a_hostile_text_is_only_ever_text(
    store: MemoryStore, embedder: PlacedEmbedder, make_memory: MakeMemory
) -> None:
    long = HOSTILE + " long" * 600
    embedder.place(HOSTILE)
    embedder.place(long, 0.93, HOSTILE)
    made = [store.add(make_memory(text, user="<b>Mia</b>\u202e")) for text in (HOSTILE, long)]
    with served(store, OfflineModel()) as there, there.browser() as browser:
        card = browser.card()
        pages = [browser.get("/").text, browser.get("/groups").text]
        browser.post("/answer", {**card, "answer": "text", "text": HOSTILE, "insist": "1"})
        pages += [browser.get(f"/{name}").text for name in ("history", "questions", "figures")]
        pages.append(browser.get(f"/memory/{made[1].id}").text)
    for page in pages:
        assert "<img" not in page
        assert "<script>" not in page
        assert "<b>" not in page
        outside = page.partition("<textarea")[0] + page.partition("</textarea>")[2]
        assert "\u202e" not in outside


def test_one_memorys_lineage_shows_every_wording_and_decision(
    browser: Browser, filled: MemoryStore
) -> None:
    browser.say("apply", of(browser, "12 km"))
    kept = next(memory for memory in filled.memories() if memory.content == RUNS[1])
    page = browser.get(f"/memory?id={kept.id}").text
    wordings = page.partition("All wordings")[2].partition("Decisions")[0]
    assert all(text in wordings for text in RUNS)
    assert "by a person" in page
    assert "forgotten" not in page
    retired = next(name for name in filled.history()[-1].members if name != kept.id)
    assert f"{kept.id}</code></a> stands for it today" in browser.get(f"/memory/{retired}").text
    assert browser.get("/memory/mem_none").status_code == 404


def test_a_decision_in_the_history_is_taken_back_and_its_members_stay_apart(
    browser: Browser, filled: MemoryStore
) -> None:
    browser.say("apply", of(browser, "12 km"))
    number = filled.history()[-1].number
    assert f"Take back decision {number}" in browser.get("/history").text
    browser.post(f"/undo/{number}")
    assert texts(filled) == {*RUNS, *SAILS}
    assert "12 km" not in browser.get("/groups").text
    assert browser.post(f"/undo/{number}").status_code == 409


def test_a_question_left_for_later_comes_last_among_the_open_ones(
    browser: Browser, filled: MemoryStore
) -> None:
    first = browser.card()
    browser.say("later", first)
    assert browser.card()["key"] != first["key"]
    assert "Pending: 1" in browser.get("/questions").text
    browser.say("keep_all")
    assert browser.card()["key"] == first["key"]


@pytest.mark.parametrize(
    ("path", "fields"),
    [
        ("/answer", {}),
        ("/answer", {"key": "x", "answer": "perhaps", "member": "mem_1"}),
        ("/answer", {"key": "x" * 3_000_000}),
        ("/propose", {"key": "none", "by": "nobody"}),
        ("/undo/999999999999", {}),
        ("/group/none?without=mem_1", None),
        ("/history?below=x", None),
        ("/groups?page=-1", None),
        ("/nothing", None),
    ],
)
def test_nonsense_is_answered_in_words(
    browser: Browser, filled: MemoryStore, path: str, fields: dict[str, str] | None
) -> None:
    answered = browser.get(path) if fields is None else browser.post(path, {**fields})
    assert answered.status_code in (200, 404, 409)
    assert texts(filled) == {*RUNS, *SAILS}
