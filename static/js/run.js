// The page of a run.  While it goes on: an idle poll answers without a body, and its heartbeat
// travels as an event; the counting itself is times.js's work.
document.addEventListener("beacon:beat", ({ detail }) => {
  if (!detail.at) return;
  document.querySelectorAll("time[data-beat]").forEach((time) => {
    time.dateTime = detail.at;
  });
});

// What a person unfolds stays so when the next poll brings the fold anew.
(() => {
  const folds = new Map();
  document.addEventListener("click", (event) => {
    const fold = event.target.closest("#run-live details[id] > summary")?.parentElement;
    if (fold) folds.set(fold.id, !fold.open);
  });
  document.addEventListener("htmx:afterSwap", () => {
    folds.forEach((open, id) => document.getElementById(id)?.toggleAttribute("open", open));
  });
})();

// Then the report: a citation mark shows its source as a card, so that nobody loses their place.
// Without scripts, or with a modifier key, it leads to the source in the list.
(() => {
  const cardOf = (source, { cardLabel, cardList }) => {
    const card = document.createElement("div");
    const n = source.id.replace("source-", "");
    card.className = "cite-card";
    card.popover = "auto";
    card.tabIndex = -1;
    card.setAttribute("role", "dialog");
    card.setAttribute("aria-label", cardLabel.replace("%s", n));
    card.append(...[...source.children].map((part) => part.cloneNode(true)));
    card.querySelectorAll("details").forEach((fold) => fold.replaceWith(...fold.querySelectorAll("blockquote, .note")));
    const all = document.createElement("a");
    all.href = `#${source.id}`;
    all.textContent = cardList;
    all.addEventListener("click", () => card.hidePopover());
    card.append(all);
    return card;
  };

  document.addEventListener("click", (event) => {
    const mark = event.target.closest('sup a[href^="#source-"]');
    if (!mark || event.ctrlKey || event.metaKey || event.shiftKey) return;
    const source = document.getElementById(mark.hash.slice(1));
    const list = source?.closest("[data-card-label]");
    if (!list || !("popover" in source)) return;
    event.preventDefault();
    const card = cardOf(source, list.dataset);
    card.addEventListener("toggle", ({ newState }) => {
      if (newState !== "closed") return;
      card.remove();
      if (document.activeElement === document.body) mark.focus({ preventScroll: true });
    });
    source.closest("article").append(card);
    card.showPopover();
    card.focus();
  });
})();
