"use strict";
/* A report: filters, order, pages, and answers that can be saved as a decisions file. */
(() => {
  const { cards, answerable, kind } = Cards.data("data");
  const PAGE = 25;
  const ORDERS = {
    certain: ["least certain first", (a, b) => a.certainty - b.certainty],
    sure: ["most certain first", (a, b) => b.certainty - a.certainty],
    alike: ["most alike first", (a, b) => (b.similarity ?? -1) - (a.similarity ?? -1)],
    size: ["largest first", (a, b) => b.members.length - a.members.length],
    newest: ["newest first", (a, b) => (at(b) < at(a) ? -1 : at(b) > at(a) ? 1 : 0)],
    oldest: ["oldest first", (a, b) => (at(a) < at(b) ? -1 : at(a) > at(b) ? 1 : 0)],
  };
  const at = (card) => card.recorded?.at ?? card.members.at(-1)?.at ?? "";
  const form = document.getElementById("filters");
  const fields = form.elements;
  const list = document.getElementById("cards");
  const pagers = [...document.querySelectorAll(".pager")];
  const texts = new Map();
  let shown = cards;
  let page = 0;

  /* --- which cards --- */

  function haystack(card) {
    if (!texts.has(card)) {
      const kept = card.kept.flatMap((one) => (one.text ?? []).map((run) => run[1]));
      const members = card.members.flatMap((one) => [one.text.join(""), one.id]);
      texts.set(card, [...members, ...kept, card.reason].join("\n").toLowerCase());
    }
    return texts.get(card);
  }

  function chosen() {
    const text = fields.text.value.trim().toLowerCase();
    const user = fields.user.value.trim().toLowerCase();
    const action = fields.action.value;
    const low = fields.low.value === "" ? -1 : Number(fields.low.value);
    const high = fields.high.value === "" ? 2 : Number(fields.high.value);
    return cards.filter((card) =>
      (!action || card.action === action)
      && (!user || (card.user ?? "no user").toLowerCase().includes(user))
      && (card.similarity === null ? low < 0 && high > 1 : card.similarity >= low && card.similarity <= high)
      && (!text || haystack(card).includes(text)));
  }

  function choose() {
    shown = chosen().sort(ORDERS[fields.sort.value][1]);
    page = 0;
    draw();
  }

  /* --- drawing --- */

  function draw() {
    const from = page * PAGE;
    const some = shown.slice(from, from + PAGE);
    list.replaceChildren(...some.map(drawn));
    const all = shown.length.toLocaleString("en");
    const of = shown.length === cards.length ? "" : `, of ${cards.length.toLocaleString("en")}`;
    document.getElementById("count").textContent = some.length
      ? `${(from + 1).toLocaleString("en")} to ${(from + some.length).toLocaleString("en")} of ${all}${of ? " that match" + of : ""}`
      : cards.length ? "Nothing matches these filters." : "There is nothing to show: no two memories are near-copies.";
    pagers.forEach(drawPager);
  }

  function drawPager(nav) {
    const pages = Math.max(1, Math.ceil(shown.length / PAGE));
    const button = (text, to, disabled) => {
      const made = Cards.make("button", "", text);
      made.type = "button";
      made.disabled = disabled;
      made.addEventListener("click", () => turn(to));
      return made;
    };
    nav.hidden = pages === 1;
    nav.replaceChildren(
      button("Previous", -1, page === 0),
      `${page + 1} / ${pages.toLocaleString("en")}`,
      button("Next", 1, page >= pages - 1),
    );
  }

  function turn(by) {
    const pages = Math.ceil(shown.length / PAGE);
    if (page + by < 0 || page + by >= pages) return;
    page += by;
    draw();
    document.getElementById("groups-title").scrollIntoView();
    list.querySelector(".card")?.focus({ preventScroll: true });
  }

  function drawn(card) {
    const made = Cards.element(card);
    if (answerable) addAnswers(made, card);
    return made;
  }

  /* --- answers --- */

  const answers = new Map();
  let order = [];
  const drafts = new Map();

  const draft = (card) => {
    if (!drafts.has(card.key)) drafts.set(card.key, { out: new Set(), text: null, insist: false });
    return drafts.get(card.key);
  };
  const drafted = (answer) => ({ out: new Set(answer.left_out), text: answer.text, insist: answer.insist });
  const goes = (card) => card.members.filter((one) => one.fate === "retire").map((one) => one.id);

  function addAnswers(element, card) {
    const answer = answers.get(card.key);
    const { out, text, insist } = answer ? drafted(answer) : draft(card);
    element.classList.toggle("is-answered", Boolean(answer));
    element.querySelectorAll(".member").forEach((one, n) => {
      if (card.members.length > 2) addLeaveOut(one, card, n, out);
      addStays(one, card, n, out, answer);
    });
    const row = element.querySelector(".answers");
    const can = goes(card).length > 0 || text !== null;
    const button = (name, label, disabled) => {
      const made = Cards.make("button", "", label);
      made.type = "button";
      made.disabled = disabled;
      made.setAttribute("aria-pressed", String(answer?.answer === name));
      made.addEventListener("click", () => give(card, name));
      return made;
    };
    const write = Cards.make("button", "", text === null ? "Write one text…" : "Drop this text");
    write.type = "button";
    write.addEventListener("click", () => edit(card, text === null));
    row.append(button("apply", text === null ? "Apply" : "Apply this text", !can), button("keep_all", "These are different", false),
      button("later", "Later", false), write);
    if (!can) row.append(Cards.make("span", "hint", "the rules cannot decide this group: choose the one that stays, write one text, or say that they are different"));
    if (text !== null) row.append(editor(card, text, insist));
  }

  function addLeaveOut(element, card, n, out) {
    const { id } = card.members[n];
    const box = Cards.make("input");
    box.type = "checkbox";
    box.checked = out.has(id);
    box.addEventListener("change", () => leaveOut(card, n));
    element.classList.toggle("is-out", out.has(id));
    element.querySelector(".meta").append(Cards.make("label", "leave", box, "leave out"));
  }

  /** The member whose text stands for the others, chosen in one step. */
  function addStays(element, card, n, out, answer) {
    const { id } = card.members[n];
    const button = Cards.make("button", "stays", "This one stays");
    button.type = "button";
    button.disabled = out.has(id);
    button.setAttribute("aria-pressed", String(answer?.stays === id));
    button.addEventListener("click", () => give(card, "same", id));
    const edits = Cards.make("button", "edits", "Edit this one");
    edits.type = "button";
    edits.addEventListener("click", () => edit(card, true, n));
    element.querySelector(".meta").append(" ", button, " ", edits);
  }

  function editor(card, text, insist) {
    const area = Cards.make("textarea");
    area.rows = 3;
    area.dir = "auto";
    area.id = `text-${card.key}`;
    area.value = text;
    area.addEventListener("input", () => write(card, area));
    const label = Cards.make("label", "", "One text that replaces these memories; it is checked when the file is applied");
    label.htmlFor = area.id;
    const box = Cards.make("input");
    box.type = "checkbox";
    box.checked = insist;
    box.addEventListener("change", () => insistOn(card));
    const insisting = Cards.make("label", "insist", box, "Apply it even if the check objects; the decision records that you insisted");
    return Cards.make("div", "editor", label, area, insisting);
  }

  /** What is typed counts; a card that was answered is open again, and typing goes on. */
  function write(card, area) {
    const { value, selectionStart } = area;
    const wasAnswered = reopen(card);
    draft(card).text = value;
    if (!wasAnswered) return;
    redraw(card, "textarea");
    document.getElementById(area.id).setSelectionRange(selectionStart, selectionStart);
  }

  function insistOn(card) {
    reopen(card);
    if (draft(card).text === null) return;
    draft(card).insist = !draft(card).insist;
    redraw(card);
  }

  /** What was said of a card no longer counts, but is where it goes on; whether anything was said. */
  function reopen(card) {
    const answer = answers.get(card.key);
    if (!answer) return false;
    drafts.set(card.key, drafted(answer));
    answers.delete(card.key);
    order = order.filter((one) => one.card !== card);
    count();
    return true;
  }

  function edit(card, start, n = -1) {
    reopen(card);
    const text = start ? card.members.at(n).text.join("") : null;
    Object.assign(draft(card), { text, insist: false });
    redraw(card, start ? "textarea" : "");
  }

  function leaveOut(card, n) {
    const { id } = card.members[n] ?? {};
    if (!id || card.members.length < 3) return;
    reopen(card);
    const { out } = draft(card);
    if (!out.delete(id)) out.add(id);
    redraw(card);
  }

  function give(card, name, stays = null) {
    const { out, text, insist } = draft(card);
    const apply = name === "apply";
    if (name === "same" && (!stays || out.has(stays))) return;
    if (apply && !goes(card).length && !text?.trim()) return;
    const before = answers.get(card.key);
    const members = card.members.map((one) => ({ id: one.id, hash: one.hash }));
    const left_out = apply || name === "same" ? [...out] : [];
    const own = apply && text?.trim() ? text.trim() : null;
    const retired = apply && own === null && !left_out.length ? goes(card) : null;
    const insists = own !== null && insist;
    answers.set(card.key, { key: card.key, members, answer: name, left_out, text: own, insist: insists, retired, stays });
    order.push({ card, before });
    count();
    redraw(card);
    move(1);
  }

  function undo() {
    const last = order.pop();
    if (!last) return;
    if (last.before) answers.set(last.card.key, last.before);
    else answers.delete(last.card.key);
    count();
    redraw(last.card);
  }

  function count() {
    const aside = document.getElementById("answered");
    aside.hidden = answers.size === 0;
    const all = cards.length.toLocaleString("en");
    document.getElementById("answered-count").textContent = `${answers.size.toLocaleString("en")} of ${all} answered`;
  }

  function redraw(card, focus = "") {
    const old = [...list.children].find((one) => one.dataset.key === card.key);
    if (!old) return;
    const made = drawn(card);
    old.replaceWith(made);
    (focus ? made.querySelector(focus) : made).focus({ preventScroll: true });
  }

  function save() {
    const lines = [{ decisions: 1 }, ...answers.values()].map((one) => JSON.stringify(one));
    const url = URL.createObjectURL(new Blob([lines.join("\n") + "\n"], { type: "application/jsonl" }));
    const link = Cards.make("a");
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
    const named = open.length ? `; ${open.length.toLocaleString("en")} still open: ${first.join(", ")}${more}` : "; none is left open";
    document.getElementById("answered-count").textContent = `${answers.size.toLocaleString("en")} saved${named}`;
  }
  let saved = 0;

  /* --- keyboard --- */

  const current = () => document.activeElement?.closest?.(".card");

  function move(by) {
    const all = [...list.children];
    const now = all.indexOf(current());
    const next = now < 0 ? 0 : now + by;
    if (next >= all.length) return turn(1);
    if (next < 0) return turn(-1);
    all[next].focus({ preventScroll: true });
    all[next].scrollIntoView({ block: "nearest" });
  }

  function keyOn(card, key) {
    const names = { y: "apply", n: "keep_all", s: "later" };
    if (key in names) give(card, names[key]);
    else if (key === "e") edit(card, draft(card).text === null && !answers.get(card.key)?.text);
    else if (key === "i") insistOn(card);
    else if (/^[1-9]$/.test(key)) give(card, "same", card.members[Number(key) - 1]?.id);
    else return false;
    return true;
  }

  function onKey(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const typing = event.target.closest("input:not([type=checkbox]), select, textarea");
    if (typing) {
      if (event.key === "Escape") (current() ?? list.querySelector(".card"))?.focus();
      return;
    }
    const moves = { j: () => move(1), k: () => move(-1), ArrowRight: () => turn(1), ArrowLeft: () => turn(-1),
      "/": () => fields.text.focus(), "?": () => document.querySelector(".keys").scrollIntoView() };
    if (answerable) moves.u = undo;
    const card = answerable && current() && shown.find((one) => one.key === current().dataset.key);
    if (event.key in moves) moves[event.key]();
    else if (!card || !keyOn(card, event.key)) return;
    event.preventDefault();
  }

  /* --- setting up --- */

  function options(select, pairs) {
    for (const [value, text] of pairs) {
      const option = Cards.make("option", "", text);
      option.value = value;
      select.append(option);
    }
  }

  function start() {
    const users = [...new Set(cards.map((card) => card.user ?? "no user"))].sort();
    const actions = [...new Set(cards.map((card) => card.action))].sort();
    document.getElementById("users").append(...users.slice(0, 500).map((name) => {
      const option = Cards.make("option");
      option.value = name;
      return option;
    }));
    options(fields.action, actions.map((name) => [name, Cards.action(name)]));
    options(fields.sort, Object.entries(ORDERS).map(([name, [label]]) => [name, label]));
    if (kind === "history") fields.sort.value = "newest";
    let waiting = 0;
    form.addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(choose, 150); });
    form.addEventListener("submit", (event) => { event.preventDefault(); choose(); });
    document.addEventListener("keydown", onKey);
    if (answerable) {
      document.getElementById("undo").addEventListener("click", undo);
      document.getElementById("save").addEventListener("click", save);
      window.addEventListener("beforeunload", (event) => { if (answers.size !== saved) event.preventDefault(); });
    }
    choose();
    performance.mark("shown");
  }
  start();
})();
