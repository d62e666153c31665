"use strict";
/* The keyboard: each key does what the element that names it does. All of it works without. */
(() => {
  let sent = false;

  function isWriting(element) {
    return element.matches("textarea, input:not([type=checkbox])");
  }

  function does(element) {
    const text = element.tagName === "SUMMARY" && element.parentElement.querySelector("textarea");
    if (!text) return element.click();
    write(text);
  }

  function write(text) {
    text.closest("details").open = true;
    text.focus();
    text.select();
  }

  document.querySelectorAll("[data-edits]").forEach((button) => button.addEventListener("click", () => {
    const text = document.getElementById("text");
    text.value = JSON.parse(button.dataset.edits);
    write(text);
  }));

  document.addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.altKey || event.isComposing) return;
    const within = document.activeElement ?? document.body;
    const accepts = event.key === "Enter" && (event.ctrlKey || event.metaKey);
    if (isWriting(within)) {
      if (event.key === "Escape") within.blur();
      if (!accepts) return;
    } else if (event.ctrlKey || event.metaKey) return;
    const key = accepts ? "w" : event.key;
    const wanted = document.querySelector(`[data-key="${CSS.escape(key)}"]:not(:disabled)`);
    if (!wanted) return;
    event.preventDefault();
    if (event.repeat) return;
    does(wanted);
  });

  /* One answer for one page, however often a key is pressed. */
  document.addEventListener("submit", (event) => {
    if (sent) event.preventDefault();
    sent = true;
  });
  window.addEventListener("pageshow", () => { sent = false; });
})();
