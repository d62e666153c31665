"use strict";
/* Cards of a page. Texts only ever become text nodes. */
const Cards = (() => {
  const LONG = 1500;
  const FATES = { keep: "stays", retire: "goes", judge: "needs a decision", beside: "not touched", forgotten: "forgotten" };
  const ACTIONS = {
    replace: "Replace", judge: "Decide", "replace + judge": "Replace, then decide", merge: "Merged",
    keep_both: "Kept apart", later: "Left for later", update: "Reworded", undo: "Taken back", forget: "Forgotten", add: "Added",
  };

  /** A new element with classes and text; what is to stand in it may be added. */
  function make(tag, className, ...inside) {
    const made = document.createElement(tag);
    if (className) made.className = className;
    made.append(...inside);
    return made;
  }

  function copyOf(id) {
    return document.getElementById(id).content.firstElementChild.cloneNode(true);
  }

  /** Words in an element of their own; the space after them stands outside. */
  function worded(tag, text, into) {
    const said = text.trimEnd();
    if (said) into.append(make(tag, "", said));
    into.append(text.slice(said.length));
  }

  /** A text in pieces of which every second one is not in the other text. */
  function markedText(pieces, into) {
    pieces.forEach((piece, n) => (n % 2 ? worded("mark", piece, into) : into.append(piece)));
  }

  /** A text with what was removed and added on the way to it. */
  function runs(of, into) {
    const tags = { removed: "del", added: "ins" };
    for (const [kind, text] of of) kind === "kept" ? into.append(text) : worded(tags[kind], text, into);
  }

  /** What is longer than a screen scrolls by itself, by keyboard too. */
  function bounded(element) {
    if (element.textContent.length > LONG) {
      element.classList.add("is-long");
      element.tabIndex = 0;
    }
  }

  function memberElement(member, card) {
    const made = copyOf("member");
    made.dataset.id = member.id;
    made.classList.add(`is-${member.fate}`);
    made.querySelector(".fate").textContent = FATES[member.fate];
    const text = made.querySelector(".text");
    markedText(member.text, text);
    bounded(text);
    const meta = made.querySelector(".meta");
    const time = make("time", "", member.at.slice(0, 16).replace("T", " "));
    time.dateTime = member.at;
    if (member.user !== card.user) meta.append(make("bdi", "", member.user ?? "no user"), " ");
    meta.append(time, " ", make("code", "", member.id));
    if (member.alike !== null) meta.append(` · similarity to the newest ${member.alike}`);
    return made;
  }

  /** The texts that were, or would be, written from several members. */
  function becomes(card, into) {
    for (const kept of card.kept) {
      if (!kept.is_new || !kept.text.length) continue;
      const text = make("p", "text");
      text.dir = "auto";
      runs(kept.text, text);
      bounded(text);
      into.append(make("p", "label", `one text for ${kept.members.length}`), text, make("code", "meta", kept.id));
    }
  }

  function figures(card) {
    const count = `${card.members.length} ${card.members.length === 1 ? "memory" : "memories"}`;
    return card.alike === null ? count : `${count} · similarity ${card.alike}`;
  }

  function provenance(recorded) {
    if (!recorded) return "";
    const verified = recorded.verified ? `, verified ${recorded.verified}` : "";
    const state = recorded.undone ? ", taken back" : recorded.pending ? ", still pending" : "";
    const at = recorded.at.slice(0, 16).replace("T", " ");
    return `decision ${recorded.number}, ${at}, by ${recorded.by}${verified}${state}`;
  }

  /** One card as an element; its `.answers` are the page's to fill. */
  function element(card) {
    const made = copyOf("card");
    const find = (selector) => made.querySelector(selector);
    made.dataset.key = card.key;
    made.dataset.action = card.action;
    find(".action").textContent = action(card.action);
    find(".who").append("· ", make("bdi", "", card.user ?? "no user"), card.private ? " (private)" : "");
    find(".figures").textContent = figures(card);
    find(".members").append(...card.members.map((member) => memberElement(member, card)));
    becomes(card, find(".becomes"));
    find(".why").append(make("span", "label", "Reason: "), make("bdi", "", card.reason));
    find(".provenance").textContent = provenance(card.recorded);
    return made;
  }

  /** The data that stand in the page as JSON. */
  function data(id) {
    return JSON.parse(document.getElementById(id).textContent);
  }

  const action = (name) => ACTIONS[name] ?? name;

  return { element, make, data, action };
})();
