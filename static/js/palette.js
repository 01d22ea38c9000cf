// The palette: a dialog with one field; ↑ ↓ move between it and the rows below, Enter in the field
// opens the first row, as soon as the rows are those of what was typed.
(() => {
  const dialog = document.getElementById("palette");
  const field = dialog.querySelector("[name=words]");
  const rows = document.getElementById("palette-rows");
  const found = document.getElementById("palette-found");
  let fresh = false; // whether the rows answer the words in the field
  let goes = false; // Enter came before they did

  const links = () => [...rows.querySelectorAll("a")];

  const open = () => {
    const first = links()[0];
    if (fresh && first) first.click();
    else goes = !fresh;
  };

  dialog.addEventListener("beacon:opened", () => {
    fresh = goes = false;
    field.select();
  });
  field.addEventListener("input", () => {
    fresh = goes = false;
  });
  rows.addEventListener("htmx:afterSettle", () => {
    const answer = rows.querySelector("[data-found]");
    found.textContent = answer?.textContent ?? "";
    // An answer to earlier words can arrive while the next ones wait for their request.
    fresh = answer?.dataset.typed === field.value;
    if (fresh && goes) open();
  });

  dialog.addEventListener("submit", (event) => {
    event.preventDefault();
    open();
  });
  dialog.addEventListener("keydown", (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!step || event.isComposing) return;
    const stops = [field, ...links()];
    const at = stops.indexOf(document.activeElement);
    stops[(at + step + stops.length) % stops.length].focus();
    event.preventDefault();
  });
  dialog.addEventListener("click", (event) => {
    // Outside of it, or on its cross.
    if (event.target === dialog || event.target.closest("[data-close-dialog]")) dialog.close();
  });
  // A page that the browser brings back does not come back with the palette over it.
  addEventListener("pagehide", () => dialog.close());
})();
