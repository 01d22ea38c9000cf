// Keyboard shortcuts. An element takes a key with data-hotkey="r" or data-hotkey="g h" (one after the
// other): a field is focused, anything else is clicked. A page's own keys win over the frame's.
// In lists with data-rows, j and k move, o opens and x selects. e and # press the row's [data-row-edit]
// and [data-row-trash], a and r its [data-row-accept] and [data-row-reject], u its [data-row-mark]. In
// Conflicts, l, r, b and m keep the left, the right or both, or merge ([data-row-left] and so on). Where
// a topic is read, l and m open a sentence's history or a note ([data-row-history], [data-row-note]). In
// Trash, r presses [data-row-restore]. "." moves to the row's buttons, which only it shows.
// In a field with data-enter-sends, Enter sends and Shift+Enter is a new line, but not on a phone.
// "Ctrl k" works with Ctrl or Cmd, and in fields too. The others never work in fields.
// <body data-shortcuts="off"> turns all off except saving.
(() => {
  const body = document.body;
  const dialog = document.getElementById("keys");
  const FIELD = "input:not([type=checkbox], [type=radio], [type=button], [type=submit]), textarea, select, [contenteditable]";
  const WAIT = 1_200;
  let first = "";
  let clock = 0;

  const shown = (element) => element.checkVisibility?.() ?? true;
  const offered = () => [...document.querySelectorAll("[data-hotkey]")];
  const rank = (element) => (element.closest("main") ? 0 : 1);

  // If several toasts have the key, the newest one takes it.
  const taker = (keys) => {
    const takers = offered()
      .filter((element) => element.dataset.hotkey === keys && (rank(element) || shown(element)))
      .filter((element) => !element.disabled && !element.closest(".leaving"))
      .sort((a, b) => rank(a) - rank(b));
    return takers[0]?.closest("[data-toast]") ? takers.at(-1) : takers[0];
  };

  const take = (element) => {
    if (element.matches(FIELD)) {
      element.focus();
      element.select?.();
    } else element.click();
  };

  // data-rows can hold a selector for its rows, if they are in groups.
  const rows = () => {
    const list = document.querySelector("main [data-rows]");
    const named = list?.dataset.rows;
    return [...((named ? list.querySelectorAll(named) : list?.children) ?? [])].filter(shown);
  };
  const here = () => rows().find((row) => row.classList.contains("here"));

  // A row's marked link, or its first one that doesn't lead to a deletion.
  const linkOf = (row) => row?.querySelector("[data-row-link]") ?? row?.querySelector("a:not(.danger)");

  const move = (step) => {
    const all = rows();
    if (!all.length) return false;
    const at = all.findIndex((row) => row.classList.contains("here"));
    const next = all[at < 0 ? 0 : Math.min(all.length - 1, Math.max(0, at + step))];
    all[at]?.classList.remove("here");
    next.classList.add("here");
    next.scrollIntoView({ block: "nearest" });
    const link = linkOf(next);
    (link ?? next.querySelector("[data-row-restore]") ?? next).focus({ preventScroll: true });
    if (next.closest("[data-rows-open]")) link.click();
    return true;
  };

  // A row that is shown in full elsewhere ([data-of] has its id) is decided there, with what was typed.
  // On a narrow screen the list is hidden while an item is open, and there is no row.
  const press = (selector) => {
    const row = here();
    const open = row ? row.id && document.querySelector(`[data-of="${row.id}"]`) : document.querySelector("[data-of]");
    const target = (open || null)?.querySelector(selector) ?? row?.querySelector(selector);
    target?.click();
    return Boolean(target);
  };

  document.addEventListener("click", ({ target }) => {
    const row = target.closest?.("[data-rows-open] [data-row-link]") && target.closest("li");
    if (!row) return;
    here()?.classList.remove("here");
    row.classList.add("here");
  });

  const LIST = {
    j: () => move(1),
    k: () => move(-1),
    o: () => {
      const link = linkOf(here());
      link?.click();
      return Boolean(link);
    },
    x: () => {
      const box = here()?.querySelector("input[type=checkbox]");
      box?.click();
      return Boolean(box);
    },
    e: () => press("[data-row-edit]"),
    "#": () => press("[data-row-trash]"),
    a: () => press("[data-row-accept]"),
    r: () => press("[data-row-reject], [data-row-right], [data-row-restore]"),
    u: () => press("[data-row-mark]"),
    l: () => press("[data-row-left], [data-row-history]"),
    b: () => press("[data-row-both]"),
    m: () => press("[data-row-merge], [data-row-note]"),
    ".": () => {
      const first = here()?.querySelector(":is(.line-acts, .row-acts, .rate) :is(a, button, summary):not(:disabled)");
      first?.focus();
      return Boolean(first);
    },
  };

  const combine = (key) => {
    clearTimeout(clock);
    const keys = first ? `${first} ${key}` : key;
    first = "";
    const element = taker(keys);
    if (element) return take(element) ?? true;
    if (keys === key && LIST[key]) return LIST[key]();
    if (keys === key && offered().some((other) => other.dataset.hotkey.startsWith(`${key} `))) {
      first = key;
      clock = setTimeout(() => (first = ""), WAIT);
      return true;
    }
    return false;
  };

  const save = (event) => {
    const form = event.target.closest?.("form") ?? document.querySelector("main form[data-save]");
    if (!form || form.method === "get") return false;
    form.requestSubmit();
    return true;
  };

  // Safari ends the choice of a character before it reports the Enter that chose it.
  const sends = ({ key, keyCode, shiftKey, target }) =>
    key === "Enter" && keyCode !== 229 && !shiftKey && target.matches?.("[data-enter-sends]") && matchMedia("(pointer: fine)").matches;

  document.addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.isComposing) return;
    const { key, target } = event;
    if (sends(event)) {
      event.preventDefault();
      if (target.value.trim() && !event.repeat) target.form.requestSubmit();
      return;
    }
    if ((event.ctrlKey || event.metaKey) && !event.altKey) {
      const saves = key === "Enter" || (key === "s" && document.querySelector("main form[data-save]"));
      if (saves && save(event)) event.preventDefault();
      else if (body.dataset.shortcuts !== "off" && !document.querySelector("dialog[open]")) {
        const element = taker(`Ctrl ${key}`); // in fields too, as it isn't text
        if (element) event.preventDefault();
        element?.click();
      }
      return;
    }
    if (event.altKey || body.dataset.shortcuts === "off") return;
    if (target.matches?.(FIELD) || document.querySelector("dialog[open], :popover-open")) return;
    if (combine(key)) event.preventDefault();
  });

  // The help lists what this page offers.
  const KEYS = (keys) => keys.split(" ").map((key) => Object.assign(document.createElement("kbd"), { textContent: key }));

  const wordsOf = (element) => {
    const bare = element.cloneNode(true);
    bare.querySelectorAll("kbd, .sr-only").forEach((part) => part.remove());
    return bare.textContent;
  };

  const line = (element) => {
    const { hotkeyLabel } = element.dataset;
    const label = hotkeyLabel || element.getAttribute("aria-label") || wordsOf(element);
    const row = document.createElement("div");
    row.dataset.made = "";
    const keys = document.createElement("dd");
    KEYS(element.dataset.hotkey).forEach((key, i) => keys.append(...(i ? [" ", key] : [key])));
    const word = document.createElement("dt");
    word.textContent = label.replace(/\s+/g, " ").trim();
    row.append(word, keys);
    return row;
  };

  const help = () => {
    dialog.querySelectorAll("[data-made]").forEach((row) => row.remove());
    dialog.querySelectorAll("[data-when]").forEach((row) => {
      row.hidden = !document.querySelector(row.dataset.when);
    });
    const seen = new Set();
    const usable = offered().sort((a, b) => rank(a) - rank(b));
    const once = usable.filter(({ dataset: { hotkey } }) => !seen.has(hotkey) && seen.add(hotkey));
    const groupOf = (element) => {
      if (element.dataset.hotkey.startsWith("g ")) return "go";
      return rank(element) ? "everywhere" : "page";
    };
    ["page", "everywhere", "go"].forEach((name) => {
      const some = once.filter((element) => groupOf(element) === name);
      dialog.querySelector(`[data-keys="${name}"]`).prepend(...some.map(line));
    });
  };

  document.addEventListener("click", (event) => {
    const opener = event.target.closest("[data-open-dialog]");
    if (!opener || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault(); // without scripts, or in another tab, the link works
    const opened = document.getElementById(opener.dataset.openDialog);
    if (opened === dialog) help();
    opener.closest("details")?.removeAttribute("open");
    opener.closest(":popover-open")?.hidePopover();
    opened.showModal();
    opened.dispatchEvent(new CustomEvent("beacon:opened"));
  });
})();
