// The Context page: what a person unfolded stays so while the layers move under their typing.
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
