// The palette: a dialog with one field. ↑ and ↓ move between the field and the rows below. Enter in the
// field opens the first row, as soon as the rows match the typed words.
(() => {
  const dialog = document.getElementById("palette");
  const field = dialog.querySelector("[name=words]");
  const rows = document.getElementById("palette-rows");
  const found = document.getElementById("palette-found");
  let fresh = false; // whether the rows match the words in the field
  let goes = false; // Enter was pressed before they did

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
    // A response to earlier words can arrive before the next request is sent.
    fresh = answer?.dataset.typed === field.value;
    if (fresh && goes) open();
  });

  dialog.addEventListener("submit", (event) => {
    event.preventDefault();
    open();
  });
  dialog.addEventListener("keydown", (event) => {
    // In a search field with text, the browser's own Escape only empties it.
    if (event.key === "Escape" && !event.isComposing) {
      event.preventDefault();
      dialog.close();
      return;
    }
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!step || event.isComposing) return;
    const stops = [field, ...links()];
    const at = stops.indexOf(document.activeElement);
    stops[(at + step + stops.length) % stops.length].focus();
    event.preventDefault();
  });
  dialog.addEventListener("click", (event) => {
    // A click outside, or on the close button.
    if (event.target === dialog || event.target.closest("[data-close-dialog]")) dialog.close();
  });
  // A page restored by the browser doesn't show the palette.
  addEventListener("pagehide", () => dialog.close());
})();
