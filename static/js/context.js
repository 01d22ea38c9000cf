// The Context page: what a person unfolded stays open while typing updates the layers.
(() => {
  const kept = new Map();
  const parts = () => document.querySelectorAll("#context details[data-part]");

  document.addEventListener("htmx:beforeSwap", (event) => {
    if (event.detail.target?.id !== "context") return;
    for (const one of parts()) kept.set(one.dataset.part, one.open);
  });

  document.addEventListener("htmx:afterSwap", () => {
    for (const one of parts()) {
      if (kept.has(one.dataset.part)) one.open = kept.get(one.dataset.part);
    }
  });
})();
