// The filter bar of a list. Everything applies at once; the open menu and the focus survive the swap, so
// that several filters can be chosen in a row. Backspace in the empty field removes the last chip.
(() => {
  const BAR = "form[data-filter-bar]";

  // URLs are short: without filters that aren't set.
  document.addEventListener("htmx:configRequest", ({ detail }) => {
    if (!detail.elt.matches(BAR)) return;
    for (const [name, value] of Object.entries(detail.parameters)) if (value === "") delete detail.parameters[name];
  });

  let kept = null; // what was open and had the focus before the swap
  document.addEventListener("htmx:beforeSwap", ({ detail }) => {
    const bar = detail.requestConfig?.elt.closest(BAR);
    if (!bar) return;
    kept = { field: bar.querySelector("[type=search]").id, focus: document.activeElement?.id };
    kept.menu = bar.querySelector("details[open]")?.id;
  });
  document.addEventListener("htmx:afterSettle", () => {
    if (!kept) return;
    const { field, menu, focus } = kept;
    kept = null;
    const opened = menu && document.getElementById(menu);
    if (opened) opened.open = true;
    const had = document.activeElement;
    if (had && had !== document.body && had.isConnected && had.id !== focus) return; // moved on in the meantime
    (document.getElementById(focus) ?? document.getElementById(field))?.focus({ preventScroll: true });
  });

  document.addEventListener("keydown", (event) => {
    const { key, target } = event;
    if (key !== "Backspace" || !target.matches?.(`${BAR} [type=search]`) || target.value) return;
    [...target.form.querySelectorAll(".filter-chip a")].pop()?.click();
  });

  // Opened by a key or a click, a menu has the focus on its chosen value, or on its date.
  document.addEventListener(
    "toggle",
    ({ target }) => {
      if (!target.matches?.(".filter-menu, .as-of") || !target.open || target.contains(document.activeElement?.closest(".menu"))) return;
      target.querySelector(".menu :checked, .menu a, .menu input:not([type=hidden])")?.focus({ preventScroll: true });
    },
    true,
  );
})();
