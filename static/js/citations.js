// A citation mark shows its source as a card, so that readers keep their place. On hover and focus the
// card appears beside the mark without taking the focus. A press or tap moves the focus into it.
// Without scripts, or with a modifier key, the mark links to the source in the list.
(() => {
  const MARK = 'sup a[href^="#source-"]';
  const SOON = 350; // ms before hover opens a card
  const GRACE = 300; // ms for the pointer to move from the mark to the card
  let hint = null;
  let clock = 0;
  let quiet = null; // the mark that gets the focus back from its card

  const sourceOf = (mark) => {
    const source = document.getElementById(mark.hash.slice(1));
    return source?.closest("[data-card-label]") && "popover" in source ? source : null;
  };

  // Show only the quotes for this sentence, if there are any.
  const narrowed = (card, key) => {
    const quotes = [...card.querySelectorAll(".quoted")];
    if (key && quotes.some((one) => one.dataset.s === key)) {
      quotes.filter((one) => one.dataset.s !== key).forEach((one) => one.remove());
    }
  };

  const cardOf = (mark, source, kind) => {
    const { cardLabel, cardList } = source.closest("[data-card-label]").dataset;
    const card = document.createElement("div");
    card.className = "cite-card";
    card.popover = kind;
    card.tabIndex = -1;
    card.setAttribute("role", "dialog");
    card.setAttribute("aria-label", cardLabel.replace("%s", source.id.replace("source-", "")));
    card.append(...[...source.children].map((part) => part.cloneNode(true)));
    card.querySelectorAll("details").forEach((fold) => fold.replaceWith(...fold.querySelectorAll(".quoted")));
    narrowed(card, mark.dataset.of);
    const all = document.createElement("a");
    all.href = `#${source.id}`;
    all.textContent = cardList;
    all.addEventListener("click", () => card.hidePopover());
    card.append(all);
    return card;
  };

  const beside = (card, mark) => {
    card.classList.add("beside-mark");
    const at = mark.getBoundingClientRect();
    const under = innerHeight - at.bottom - 14;
    const over = at.top - 14;
    const isUnder = under >= card.offsetHeight || under >= over;
    card.style.maxHeight = `${Math.min(innerHeight * 0.6, Math.max(120, isUnder ? under : over))}px`;
    card.style.left = `${Math.max(8, Math.min(at.left, innerWidth - card.offsetWidth - 8))}px`;
    card.style.top = isUnder ? `${at.bottom + 6}px` : `${Math.max(8, at.top - card.offsetHeight - 6)}px`;
  };

  const drop = () => {
    clearTimeout(clock);
    hint?.remove();
    hint = null;
  };

  const peek = (mark) => {
    const source = sourceOf(mark);
    if (!source || hint?.mark === mark) return;
    drop();
    hint = cardOf(mark, source, "manual");
    hint.mark = mark;
    source.closest("article").append(hint);
    hint.showPopover();
    beside(hint, mark);
  };

  const open = (mark, source) => {
    drop();
    const card = cardOf(mark, source, "auto");
    card.addEventListener("beforetoggle", ({ newState }) => {
      if (newState === "closed") quiet = mark; // the browser may return the focus by itself
    });
    card.addEventListener("toggle", ({ newState }) => {
      if (newState !== "closed") return;
      card.remove();
      if (document.activeElement === document.body) mark.focus({ preventScroll: true });
      quiet = null;
    });
    source.closest("article").append(card);
    card.showPopover();
    card.focus();
  };

  document.addEventListener("click", (event) => {
    const mark = event.target.closest(MARK);
    if (!mark || event.ctrlKey || event.metaKey || event.shiftKey) return;
    const source = sourceOf(mark);
    if (!source) return;
    event.preventDefault();
    open(mark, source);
  });
  document.addEventListener("pointerover", ({ target, pointerType }) => {
    if (pointerType !== "mouse" || document.querySelector(".cite-card[popover=auto]")) return;
    const mark = target.closest(MARK);
    clearTimeout(clock);
    if (mark) clock = setTimeout(() => peek(mark), SOON);
    else if (hint && !hint.contains(target)) clock = setTimeout(drop, GRACE);
  });
  document.addEventListener("focusin", ({ target }) => {
    const mark = target.closest?.(MARK);
    if (mark && mark !== quiet && mark.matches(":focus-visible")) peek(mark);
    else if (hint && !hint.contains(target)) drop();
  });
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !hint) return;
    event.stopPropagation();
    drop();
  }, true);
  addEventListener("scroll", () => hint && !hint.matches(":hover") && drop(), { passive: true });
})();
