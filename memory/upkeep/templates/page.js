"use strict";
/* A page of groups. Answers are posted to a review, or saved as a decisions file.
   Texts only ever become text nodes. */
(() => {
  const { cards, kind, saves, blind, judges, progress } = JSON.parse(document.getElementById("data").textContent);
  const PAGE = 25;
  const LONG = 1500;
  const FEW = 6;
  const FATES = { keep: "stays", retire: "goes", judge: "", beside: "not touched", forgotten: "forgotten" };
  const ACTIONS = {
    replace: "Replace", judge: "Decide", "replace + judge": "Replace, then decide", merge: "Merged",
    keep_both: "Kept apart", later: "Left for later", update: "Reworded", undo: "Taken back",
    forget: "Forgotten", add: "Added", supersede: "Superseded", expire: "Expires", conflict: "Which one holds now?",
    failed: "A model failed", wordings: "All wordings", "": "Same or different?",
  };
  const at = (card) => card.recorded?.at ?? card.members.at(-1)?.at ?? "";
  const ORDERS = {
    given: ["least certain first", () => 0],
    alike: ["most alike first", (a, b) => (b.similarity ?? -1) - (a.similarity ?? -1)],
    size: ["largest first", (a, b) => b.members.length - a.members.length],
    newest: ["newest first", (a, b) => (at(b) < at(a) ? -1 : at(b) > at(a) ? 1 : 0)],
    oldest: ["oldest first", (a, b) => (at(a) < at(b) ? -1 : at(a) > at(b) ? 1 : 0)],
  };
  const by = (id) => document.getElementById(id);
  const form = by("filters");
  const fields = form.elements;
  const list = by("cards");
  const pager = document.querySelector(".pager");
  const number = (count) => count.toLocaleString("en");
  const haystacks = new Map();
  let shown = cards;
  let page = 0;

  /* --- elements --- */

  function make(tag, className, ...inside) {
    const made = document.createElement(tag);
    if (className) made.className = className;
    made.append(...inside);
    return made;
  }

  function button(label, key, press, disabled = false) {
    const made = make("button", "", label);
    if (key) made.append(" ", make("kbd", "", key));
    Object.assign(made, { type: "button", disabled });
    if (key) made.dataset.key = key;
    made.addEventListener("click", press);
    return made;
  }

  function box(className, label, checked, change) {
    const made = make("input");
    Object.assign(made, { type: "checkbox", checked });
    made.addEventListener("change", change);
    return make("label", className, made, label);
  }

  const copyOf = (id) => by(id).content.firstElementChild.cloneNode(true);

  /** Words in an element of their own; the space after them stands outside. */
  function worded(tag, text, into) {
    const said = text.trimEnd();
    if (said) into.append(make(tag, "", said));
    into.append(text.slice(said.length));
  }

  /** What is longer than a screen scrolls by itself, by keyboard too. */
  function bounded(element) {
    if (element.textContent.length > LONG) {
      element.classList.add("is-long");
      element.tabIndex = 0;
    }
    return element;
  }

  function textOf(runs) {
    const made = make("p", "text");
    made.dir = "auto";
    const tags = { removed: "del", added: "ins" };
    for (const [how, text] of runs) how === "kept" ? made.append(text) : worded(tags[how], text, made);
    return bounded(made);
  }

  function idOf(id) {
    const code = make("code", "", id);
    if (saves !== "post") return code;
    const link = make("a", "", code);
    link.href = `/memory/${id}`;
    return link;
  }

  /* --- a group --- */

  function element(card) {
    const made = copyOf("card");
    const find = (selector) => made.querySelector(selector);
    const answer = answers.get(card.key);
    const { out } = stateOf(card);
    made.dataset.key = card.key;
    made.dataset.action = card.action;
    made.classList.toggle("is-answered", Boolean(answer));
    find(".action").textContent = ACTIONS[card.action] ?? card.action;
    const alike = card.alike === null ? "" : ` · similarity ${card.alike}`;
    const count = `${card.members.length} ${card.members.length === 1 ? "memory" : "memories"}`;
    find(".who").append(make("bdi", "", card.user ?? "no user"), `${card.private ? " (private)" : ""} · ${count}${alike}`);
    find(".note").textContent = card.note ?? "";
    find(".members").append(...card.members.map((member, n) => memberElement(card, member, n, out)));
    if (card.in_favour) find(".evidence").append(make("b", "", "For: "), card.in_favour, ". ");
    if (card.against) find(".evidence").append(make("b", "", card.in_favour ? "Against: " : "Differs: "), card.against, ".");
    becomes(card, find(".becomes"));
    if (card.reason) find(".why").append("Reason: ", make("bdi", "", card.reason), provenance(card.recorded));
    addAnswers(card, find(".answers"), find(".editor"), answer);
    return made;
  }

  function memberElement(card, member, n, out) {
    const made = copyOf("member");
    const isOut = out.has(member.id);
    const goes = card.goes ? (card.goes.includes(member.id) ? "retire" : member.fate === "retire" ? "keep" : member.fate) : member.fate;
    made.classList.add(isOut ? "is-out" : `is-${blind ? "" : goes}`);
    const text = made.querySelector(".text");
    member.text.forEach((piece, position) => (position % 2 ? worded("mark", piece, text) : text.append(piece)));
    bounded(text);
    const acts = made.querySelector(".acts");
    const fate = isOut ? "left out" : blind ? "" : FATES[goes];
    if (fate) acts.append(make("span", "quiet", fate));
    if (isOpen(card)) {
      const holds = card.action === "conflict";
      acts.append(button(holds ? "This one holds" : "This one stays", n < 9 ? String(n + 1) : "", () => choose(card, n), isOut));
      if (!holds) acts.append(button("Edit", "", () => edit(card, n)));
      if (!holds && card.members.length > 2) acts.append(box("leave", "leave out", isOut, () => leaveOut(card, member.id)));
    }
    const time = make("time", "", member.at.slice(0, 16).replace("T", " "));
    time.dateTime = member.at;
    const meta = made.querySelector(".meta");
    if (member.user !== card.user) meta.append(make("bdi", "", member.user ?? "no user"), " ");
    meta.append(time, " ", idOf(member.id));
    if (member.alike !== null && card.members.length > 2) meta.append(` · similarity to the newest ${member.alike}`);
    return made;
  }

  /** The texts that were, would be, or were to be written from several members. */
  function becomes(card, into) {
    const add = (label, runs, why = "") => {
      into.append(make("p", "label", label));
      if (runs) into.append(textOf(runs));
      if (why) into.append(make("p", "meta", make("bdi", "", why)));
    };
    for (const kept of card.kept) {
      if (kept.is_new && kept.text.length) add(`one text for ${kept.members.length}`, kept.text);
    }
    for (const one of card.recorded?.refused ?? []) add(`refused by ${one.by}`, [["kept", one.text]], one.why);
    const proposal = card.proposal;
    if (!proposal) return;
    const label = proposal.pending ? "has no proposal" : proposal.texts.length ? "proposes one text" : "proposes to keep them apart";
    add(`${proposal.by} ${label}${proposal.texts.length ? "" : `: ${proposal.why}`}`);
    for (const text of proposal.texts) into.append(textOf([["kept", text]]));
  }

  function provenance(recorded) {
    if (!recorded) return "";
    const verified = recorded.verified ? `, verified ${recorded.verified}` : "";
    const state = recorded.undone ? ", taken back" : recorded.pending ? ", still pending" : "";
    return ` (decision ${recorded.number}, ${recorded.at.slice(0, 16).replace("T", " ")}, by ${recorded.by}${verified}${state})`;
  }

  /* --- which groups --- */

  function haystack(card) {
    if (!haystacks.has(card)) {
      const kept = card.kept.flatMap((one) => (one.text ?? []).map((run) => run[1]));
      const members = card.members.flatMap((one) => [one.text.join(""), one.id]);
      haystacks.set(card, [...members, ...kept, card.reason].join("\n").toLowerCase());
    }
    return haystacks.get(card);
  }

  function filter() {
    const text = fields.text.value.trim().toLowerCase();
    const user = fields.user.value.trim().toLowerCase();
    const action = fields.action.value;
    const low = fields.low.value === "" ? -1 : Number(fields.low.value);
    const high = fields.high.value === "" ? 2 : Number(fields.high.value);
    const fits = (card) =>
      (!action || card.action === action)
      && (!user || (card.user ?? "no user").toLowerCase().includes(user))
      && (card.similarity === null ? low < 0 && high > 1 : card.similarity >= low && card.similarity <= high)
      && (!text || haystack(card).includes(text));
    shown = cards.filter(fits).sort(ORDERS[fields.sort.value][1]);
    page = 0;
    draw();
  }

  const pages = () => Math.max(1, Math.ceil(shown.length / PAGE));

  function draw() {
    const from = page * PAGE;
    const some = shown.slice(from, from + PAGE);
    list.replaceChildren(...some.map(element));
    const of = shown.length === cards.length ? "" : ` that match, of ${number(cards.length)}`;
    by("count").textContent = some.length
      ? `${number(from + 1)} to ${number(from + some.length)} of ${number(shown.length)}${of}`
      : cards.length ? "Nothing matches these filters." : "There is nothing to show.";
    pager.hidden = pages() === 1;
    pager.replaceChildren(
      button("Previous", "", () => turn(-1), page === 0),
      `${page + 1} / ${number(pages())}`,
      button("Next", "", () => turn(1), page >= pages() - 1),
    );
    for (const card of some) if (needsLook(card)) look(card);
  }

  function turn(steps) {
    if (page + steps < 0 || page + steps >= pages()) return;
    page += steps;
    draw();
    list.firstElementChild?.focus({ preventScroll: true });
    by("count").scrollIntoView();
  }

  /* --- answers --- */

  const answers = new Map(); // by key: a line of a decisions file, and its decision once posted
  const drafts = new Map();
  let order = []; // latest last: the card, and what was answered before
  let saved = 0;
  let last = progress?.last ?? null;
  let busy = false;

  const draft = (card) => {
    if (!drafts.has(card.key)) drafts.set(card.key, { out: new Set(), text: null, insist: false });
    return drafts.get(card.key);
  };
  const stateOf = (card) => {
    const answer = answers.get(card.key);
    return answer ? { out: new Set(answer.left_out), text: answer.text, insist: answer.insist } : draft(card);
  };
  const goes = (card) => card.goes ?? card.members.filter((one) => one.fate === "retire").map((one) => one.id);
  const isDone = (card) => saves === "post" && answers.has(card.key) && answers.get(card.key).answer !== "later";
  const isOpen = (card) => saves && card.members.length > 1 && card.action !== "wordings"
    && (!card.recorded || card.recorded.pending && !card.recorded.undone) && !isDone(card);
  const refusedText = (card) => card.recorded?.refused.find((one) => one.text && one.members.length === card.members.length);

  function addAnswers(card, row, into, answer) {
    if (isDone(card)) {
      row.append(make("span", "quiet", `Decision ${answer.number}`), button("Undo", "", () => undo(card)));
      return;
    }
    if (!isOpen(card)) {
      const { recorded } = card;
      if (saves === "post" && recorded?.reversible && !recorded.undone) {
        row.append(button(`Take back decision ${recorded.number}`, "", () => takeBack(recorded.number)));
      }
      return;
    }
    const add = (name, label, key, press, disabled) => {
      const made = button(label, key, press, disabled);
      if (name) made.setAttribute("aria-pressed", String(answer?.answer === name));
      row.append(made);
    };
    const { text, insist } = stateOf(card);
    if (card.action === "conflict") add("both", "Both hold", "b", () => settle(card, "both"));
    else if (blind) add("same", "Same", "y", () => give(card, "same"));
    else add("apply", text === null ? "Apply" : "Apply this text", "y", () => give(card, "apply"), !canApply(card, text));
    if (card.action !== "conflict") {
      add("keep_all", blind ? "Different" : "These are different", "n", () => give(card, "keep_all"));
      add("later", "Later", "s", () => give(card, "later"));
      add("", text === null ? "Write one text" : "Drop this text", "e", () => edit(card));
    }
    if (refusedText(card)) add("", "Take the refused text all the same", "t", () => takeRefused(card));
    if (card.looked) for (const name of judges.slice(1)) add("", `Ask ${name}`, "p", () => look(card, name));
    if (text !== null) into.append(...editor(card, text));
    if (text !== null || card.may_insist) into.append(box("insist", "Do it even if the check objects; the decision records that you insisted", insist, () => insistOn(card)));
  }

  const canApply = (card, text) => goes(card).length > 0 || text !== null || Boolean(card.proposal && !card.proposal.pending);

  function editor(card, text) {
    const area = make("textarea");
    Object.assign(area, { rows: 3, dir: "auto", id: `text-${card.key}`, value: text, maxLength: 100_000 });
    area.addEventListener("input", () => write(card, area));
    const label = make("label", "", "One text that replaces these memories; it is checked when it is applied");
    label.htmlFor = area.id;
    return [label, area];
  }

  /** What is typed counts; a card that was answered is open again, and typing goes on. */
  function write(card, area) {
    const { value, selectionStart } = area;
    const wasAnswered = reopen(card);
    draft(card).text = value;
    if (!wasAnswered) return;
    redraw(card, "textarea");
    by(area.id).setSelectionRange(selectionStart, selectionStart);
  }

  function insistOn(card) {
    reopen(card);
    draft(card).insist = !draft(card).insist;
    redraw(card);
  }

  /** What was said of a card no longer counts, but is where it goes on; whether anything was said. */
  function reopen(card) {
    if (!answers.has(card.key)) return false;
    drafts.set(card.key, stateOf(card));
    answers.delete(card.key);
    order = order.filter((one) => one.card !== card);
    count();
    return true;
  }

  /** Start a text from a member's, by default from the proposal or the newest; or drop it. */
  function edit(card, n = -1) {
    const starts = n >= 0 || stateOf(card).text === null;
    reopen(card);
    const proposed = n < 0 && card.proposal?.texts[0];
    Object.assign(draft(card), { text: starts ? proposed || card.members.at(n).text.join("") : null, insist: false });
    redraw(card, starts ? "textarea" : "");
  }

  function leaveOut(card, id) {
    reopen(card);
    const { out } = draft(card);
    if (!out.delete(id)) out.add(id);
    if (card.looked) look(card);
    else redraw(card);
  }

  function choose(card, n) {
    const id = card.members[n]?.id;
    if (!id || stateOf(card).out.has(id)) return;
    if (card.action === "conflict") settle(card, n ? "newer" : "older");
    else give(card, "same", id);
  }

  function give(card, answer, stays = null) {
    const { out, text, insist } = stateOf(card);
    const applies = answer === "apply";
    if (applies && !canApply(card, text?.trim() ? text : null)) return;
    const own = applies && text?.trim() ? text.trim() : null;
    const left_out = applies || answer === "same" ? [...out] : [];
    const plan = applies && own === null && (card.looked || !out.size) ? goes(card) : [];
    const members = card.members.map((one) => ({ id: one.id, hash: one.hash }));
    const line = { key: card.key, members, answer, left_out, text: own, insist: own !== null && insist, retired: plan.length ? plan : null, stays };
    keep(card, line, "/answer", { answer: line, proposal: card.proposal?.token ?? "" });
  }

  function takeRefused(card) {
    const refused = refusedText(card);
    if (!refused) return;
    Object.assign(draft(card), { text: refused.text, insist: true });
    give(card, "apply");
  }

  function settle(card, holds) {
    const [older, newer] = card.members.map((one) => one.id);
    keep(card, { answer: holds, left_out: [], text: null }, "/conflict", { older, newer, holds, insist: draft(card).insist });
  }

  /** Save an answer: at once where it is posted, or with all others in a file. */
  async function keep(card, line, path, body) {
    if (busy) return;
    busy = true;
    const said = saves === "post" ? await post(path, body) : {};
    busy = false;
    if (said.why) {
      const now = said.card ? swap(card, said.card) : card;
      Object.assign(now, { note: `Not done: ${said.why}`, may_insist: said.may_insist });
      redraw(now, said.may_insist ? ".insist input" : "");
      return;
    }
    order.push({ card, before: answers.get(card.key) });
    answers.set(card.key, { ...line, number: said.number });
    card.note = "";
    for (const one of said.more ?? []) insert(one, card);
    count();
    redraw(card);
    move(1);
  }

  async function undo(card) {
    const entry = card ? order.find((one) => one.card === card) : order.at(-1);
    if (busy || (!entry && (last === null || saves !== "post"))) return;
    busy = true;
    const decision = entry ? answers.get(entry.card.key).number : last;
    const said = saves === "post" ? await post("/undo", { number: decision, reopen: true }) : {};
    busy = false;
    if (said.why || !entry) return said.why ? tell(said.why) : location.reload();
    order = order.filter((one) => one !== entry);
    if (entry.before) answers.set(entry.card.key, entry.before);
    else answers.delete(entry.card.key);
    count();
    redraw(entry.card);
    focusOn(nodeOf(entry.card));
  }

  async function takeBack(decision) {
    const said = await post("/undo", { number: decision });
    if (said.why) tell(said.why);
    else location.reload();
  }

  async function post(path, body) {
    try {
      const sent = { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) };
      const reply = await fetch(path, sent);
      const said = await reply.json();
      if (said.progress) showProgress(said.progress);
      return said;
    } catch {
      return { why: "the review does not answer; is it still running?" };
    }
  }

  const needsLook = (card) => kind === "review" && !blind && !card.looked && isOpen(card) && !goes(card).length;

  /** Ask the review for a group as it is now, and for a proposal about it. */
  async function look(card, judge = "") {
    card.looked = true;
    const said = await post("/look", { key: card.key, left_out: [...stateOf(card).out], by: judge });
    if (said.why) card.note = said.why;
    redraw(said.card ? swap(card, said.card) : card);
  }

  function swap(card, now) {
    for (const some of new Set([cards, shown])) some.splice(some.indexOf(card), 1, now);
    now.looked = !now.recorded && kind === "review";
    drafts.set(now.key, stateOf(card));
    nodeOf(card)?.setAttribute("data-key", now.key);
    return now;
  }

  function insert(card, after) {
    for (const some of new Set([cards, shown])) some.splice(some.indexOf(after) + 1, 0, card);
    nodeOf(after)?.after(element(card));
    if (needsLook(card)) look(card);
  }

  const tell = (text) => { by("count").textContent = text; };

  function showProgress(now) {
    last = now.last;
    const bar = document.querySelector("progress");
    bar.max = Math.max(1, now.answered + now.left + now.later);
    bar.value = now.answered;
    const later = now.later ? `, ${number(now.later)} for later` : "";
    document.querySelector(".progress span").textContent = `${number(now.answered)} answered, ${number(now.left)} left${later}`;
  }

  function count() {
    const left = cards.filter((card) => isOpen(card) && !answers.has(card.key)).length;
    by("answered").hidden = answers.size === 0 && (saves !== "post" || last === null);
    by("answered-count").textContent = saves === "post" && !left && kind === "review"
      ? "Nothing is left on this page. Reload it to look for more."
      : `${number(answers.size)} of ${number(cards.length)} answered`;
  }

  const nodeOf = (card) => [...list.children].find((one) => one.dataset.key === card.key);

  function redraw(card, focus = "") {
    const old = nodeOf(card);
    if (!old) return;
    const had = old.contains(document.activeElement);
    const made = element(card);
    old.replaceWith(made);
    if (!had && !focus) return;
    (focus && made.querySelector(focus) || made).focus({ preventScroll: true });
    made.scrollIntoView({ block: "nearest" });
  }

  function save() {
    const lines = [{ decisions: 1 }, ...answers.values()].map(({ number: _, ...line }) => JSON.stringify(line));
    const url = URL.createObjectURL(new Blob([lines.join("\n") + "\n"], { type: "application/jsonl" }));
    const link = make("a");
    link.href = url;
    link.download = "decisions.jsonl";
    link.click();
    setTimeout(() => URL.revokeObjectURL(url), 60_000);
    saved = answers.size;
    sayOpen();
  }

  /** What a file that was just saved leaves open, by the texts of its first groups. */
  function sayOpen() {
    const open = cards.filter((card) => !answers.has(card.key));
    const first = open.slice(0, 3).map((card) => `“${card.members.at(-1).text.join("").slice(0, 60)}”`);
    const more = open.length > 3 ? " …" : "";
    const named = open.length ? `; ${number(open.length)} still open: ${first.join(", ")}${more}` : "; none is left open";
    by("answered-count").textContent = `${number(answers.size)} saved${named}`;
  }

  /* --- keyboard --- */

  const current = () => document.activeElement?.closest?.(".card");

  function focusOn(node) {
    node?.focus({ preventScroll: true });
    node?.scrollIntoView({ block: "nearest" });
  }

  /** Go to another group; after an answer, to the next one that is not answered. */
  function move(steps) {
    const all = [...list.children];
    const now = all.indexOf(current());
    const next = now < 0 ? 0 : now + steps;
    if (next >= all.length) turn(1);
    else if (next < 0) turn(-1);
    else focusOn(all[next]);
  }

  function search() {
    by("find").open = true;
    fields.text.focus();
  }

  function press(event, within) {
    const wanted = (within ?? document).querySelector(`[data-key="${CSS.escape(event.key)}"]:not(:disabled)`);
    if (wanted && !event.repeat) wanted.click();
    return Boolean(wanted);
  }

  function onKey(event) {
    const typing = event.target.closest("input:not([type=checkbox]), select, textarea");
    const applies = event.key === "Enter" && (event.ctrlKey || event.metaKey) && event.target.matches("textarea");
    if (applies) current()?.querySelector("[data-key=y]")?.click();
    if (applies || event.altKey || event.ctrlKey || event.metaKey || event.isComposing) return;
    if (typing) {
      if (event.key === "Escape") focusOn(current() ?? list.firstElementChild);
      return;
    }
    const moves = { j: () => move(1), k: () => move(-1), u: () => undo(), ArrowRight: () => turn(1), ArrowLeft: () => turn(-1),
      i: () => current()?.querySelector(".insist input")?.click(), "/": search };
    if (event.key in moves) moves[event.key]();
    else if (!(current() && press(event, current())) && !press(event, document.querySelector("header nav")) && !press(event, document.querySelector("footer.page"))) return;
    event.preventDefault();
  }

  /* --- setting up --- */

  function options(select, pairs) {
    for (const [value, text] of pairs) {
      const option = make("option", "", text);
      option.value = value;
      select.append(option);
    }
  }

  async function invite() {
    const said = await post("/invite", {});
    by("invite").after(" This address works once: ", make("code", "", said.address ?? said.why));
  }

  function start() {
    const users = [...new Set(cards.map((card) => card.user ?? "no user"))].sort();
    options(by("users"), users.slice(0, 500).map((name) => [name, name]));
    options(fields.action, [...new Set(cards.map((card) => card.action))].sort().map((name) => [name, ACTIONS[name] ?? name]));
    options(fields.sort, Object.entries(ORDERS).filter(([name]) => !blind || name !== "alike").map(([name, [label]]) => [name, label]));
    if (kind === "history") fields.sort.value = "newest";
    by("find").hidden = cards.length < FEW;
    by("find").open = innerWidth > 640;
    form.querySelectorAll(".alike").forEach((one) => { one.hidden = blind; });
    let waiting = 0;
    form.addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(filter, 150); });
    form.addEventListener("submit", (event) => { event.preventDefault(); filter(); });
    document.addEventListener("keydown", onKey);
    by("undo").addEventListener("click", () => undo());
    by("save").addEventListener("click", save);
    by("save").hidden = saves !== "file";
    by("invite")?.addEventListener("click", invite);
    if (saves === "file") window.addEventListener("beforeunload", (event) => { if (answers.size !== saved) event.preventDefault(); });
    if (progress) showProgress(progress);
    filter();
    count();
    if (kind === "review") focusOn(list.firstElementChild);
    performance.mark("shown");
  }
  start();
})();
