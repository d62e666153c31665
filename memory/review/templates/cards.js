"use strict";
/* Cards of a page. Texts only ever become text nodes. */
const Cards = (() => {
  const FATES = { keep: "stays", retire: "goes", judge: "to judge", forgotten: "forgotten" };
  const ACTIONS = {
    replace: "Replace", judge: "Ask", "replace + judge": "Replace, then ask", merge: "Merged",
    keep_both: "Kept apart", update: "Reworded", undo: "Taken back", forget: "Forgotten", add: "Added",
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

  const score = (value) => (value === null ? "" : (Math.floor(value * 100) / 100).toFixed(2));
  const day = (at) => at.slice(0, 10);

  /** A text in pieces of which every second one is not in the other text. */
  function markedText(pieces, into) {
    pieces.forEach((piece, n) => into.append(n % 2 ? make("mark", "", piece) : piece));
  }

  /** A text with what was removed and added on the way to it. */
  function runs(of, into) {
    const tags = { removed: "del", added: "ins" };
    for (const [kind, text] of of) into.append(kind === "kept" ? text : make(tags[kind], "", text));
  }

  function memberElement(member, card) {
    const made = copyOf("member");
    made.dataset.id = member.id;
    made.classList.add(`is-${member.fate}`);
    made.querySelector(".fate").textContent = FATES[member.fate];
    markedText(member.text, made.querySelector(".text"));
    const meta = made.querySelector(".meta");
    const time = make("time", "", member.at.slice(0, 16).replace("T", " "));
    time.dateTime = member.at;
    if (member.user !== card.user) meta.append(make("bdi", "", member.user ?? "everyone"), " ");
    meta.append(time, " ", make("code", "", member.id));
    return made;
  }

  /** The texts that were, or would be, written from several members. */
  function becomes(card, into) {
    for (const kept of card.kept) {
      if (!kept.is_new || !kept.text.length) continue;
      const text = make("p", "text");
      text.dir = "auto";
      runs(kept.text, text);
      into.append(make("p", "label", `${kept.members.length} become`), text, make("code", "meta", kept.id));
    }
  }

  function figures(card) {
    const count = `${card.members.length} ${card.members.length === 1 ? "memory" : "memories"}`;
    const scores = card.similarities.map((pair) => pair[2]);
    const high = scores.length ? Math.max(...scores) : card.similarity;
    if (card.similarity === null) return count;
    const low = score(card.similarity);
    return `${count} · ${low === score(high) ? low : `${low} to ${score(high)}`} alike`;
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
    find(".action").textContent = ACTIONS[card.action] ?? card.action;
    find(".who").append(make("bdi", "", card.user ?? "everyone"), card.private ? " (private)" : "");
    find(".figures").textContent = figures(card);
    find(".members").append(...card.members.map((member) => memberElement(member, card)));
    becomes(card, find(".becomes"));
    find(".why").append(make("span", "label", "because "), make("bdi", "", card.reason));
    find(".differs").append(...card.differences.map((told) => make("li", "", make("bdi", "", told))));
    find(".provenance").textContent = provenance(card.recorded);
    return made;
  }

  /** The data that stand in the page as JSON. */
  function data(id) {
    return JSON.parse(document.getElementById(id).textContent);
  }

  return { element, make, data, score, day };
})();
