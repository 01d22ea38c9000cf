// Each sentence of a report can be corrected: select it, or reach it with Tab and the arrow keys, and a
// button (e) opens the form below it. Without scripts, the list of sentences below the report links to it.
(() => {
  const lineOf = () => document.querySelector("[data-sentences]");
  // A sentence in a closed fold can't have the focus.
  const sentences = () =>
    [...document.querySelectorAll("article.report .body-text[id]")].filter((one) => one.checkVisibility?.() ?? true);
  let button = null;
  let offered = null; // the sentence that has the button

  const partsOf = (key) => document.querySelectorAll(`article.report .body-text[data-s="${key}"]`);
  const clear = () => {
    document.querySelectorAll(".body-text.here").forEach((part) => part.classList.remove("here"));
    button?.remove();
    button = null;
  };

  const addressOf = (key) => `${lineOf().dataset.sentences}${key}/correct/`;

  const offer = (part) => {
    if (button && offered === part) return;
    clear();
    const key = part.dataset.s;
    offered = part;
    partsOf(key).forEach((one) => one.classList.add("here"));
    button = document.createElement("a");
    button.className = "btn btn-sm correct-this no-print";
    button.href = addressOf(key);
    button.dataset.of = key;
    button.textContent = lineOf().dataset.correct;
    button.dataset.hotkey = "e";
    part.after(button);
  };

  // The form is below the paragraph, or within the list item or cell. A change is said again in the full
  // report, so it's opened where the person is.
  const open = (key, event) => {
    const whole = offered.closest(".delta, .lead, .body") ?? offered.closest(".report");
    const parts = [...partsOf(key)].filter((one) => whole.contains(one));
    const part = parts.at(-1);
    const within = part.closest("li, td, th, dd");
    const block = within ?? part.closest("p, blockquote, h1, h2, h3, h4") ?? part;
    const old = within ? within.querySelector(":scope > .edit-here") : block.nextElementSibling;
    const place = old?.matches(".edit-here") ? old : document.createElement("div");
    if (place.contains(document.activeElement)) return;
    place.className = "edit-here ui no-print";
    place.from = parts[0];
    if (within) within.append(place);
    else block.after(place);
    clear();
    htmx.ajax("GET", addressOf(key), { target: place, event });
  };

  // Cancel and Escape close a form, except one with unsaved text.
  const close = (form) => {
    const place = form.closest(".edit-here");
    const link = form.matches(".note-form") ? "[data-row-note]" : "[data-row-edit]";
    const back = place.from ?? place.closest("li.line")?.querySelector(link);
    place.replaceChildren();
    back?.focus();
  };
  document.addEventListener("click", (event) => {
    const { target } = event;
    const form = target.closest?.(".edit-here [data-close-edit]")?.closest("form");
    if (form) close(form);
    const pressed = target.closest?.(".correct-this");
    if (!pressed || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    open(pressed.dataset.of, event);
  });
  document.addEventListener("keydown", (event) => {
    const form = event.key === "Escape" && event.target.closest?.(".edit-here form");
    if (!form) return;
    const isChanged = [...form.querySelectorAll("textarea, input[type=text]")].some((one) => one.value !== one.defaultValue);
    if (!isChanged) close(form);
  });

  // One Tab stop for all of them. The arrow keys move between them.
  const ready = () => {
    const line = lineOf();
    const all = sentences();
    const fresh = all.filter((one) => !one.hasAttribute("tabindex"));
    if (!line || !fresh.length) return;
    let hint = document.getElementById("said-hint");
    if (!hint) {
      hint = document.createElement("span");
      hint.id = "said-hint";
      hint.hidden = true;
      hint.textContent = line.dataset.hint;
      line.append(hint);
    }
    fresh.forEach((one) => {
      one.tabIndex = one === all[0] ? 0 : -1;
      one.setAttribute("aria-describedby", hint.id);
    });
  };

  const go = (from, step) => {
    const all = sentences();
    const next = all[all.indexOf(from) + step];
    if (!next) return;
    all.forEach((one) => (one.tabIndex = -1));
    next.tabIndex = 0;
    next.focus();
  };

  document.addEventListener("keydown", (event) => {
    const { target, key } = event;
    if (!target.matches?.(".body-text[tabindex]") || event.ctrlKey || event.metaKey || event.altKey) return;
    if (key === "ArrowDown" || key === "ArrowUp") {
      event.preventDefault();
      go(target, key === "ArrowDown" ? 1 : -1);
    } else if (key === "Enter") {
      event.preventDefault();
      offer(target);
      button.click();
    } else if (key === "Escape") clear();
  });
  document.addEventListener("focusin", ({ target }) => {
    if (!lineOf()) return;
    if (target.matches(".body-text[tabindex]") && target.matches(":focus-visible")) offer(target);
    else if (button && target !== button) clear();
  });
  document.addEventListener("selectionchange", () => {
    const selection = getSelection();
    if (!lineOf() || selection.isCollapsed || !selection.toString().trim()) return;
    const node = selection.anchorNode;
    const part = (node?.nodeType === Node.TEXT_NODE ? node.parentElement : node)?.closest?.("article.report .body-text");
    if (part) offer(part);
  });
  document.addEventListener("pointerdown", ({ target }) => {
    if (button && !button.contains(target)) clear();
  });
  document.addEventListener("htmx:afterSettle", ready);
  document.addEventListener("toggle", ready, true); // a fold that opened contains more sentences
  ready();
})();
