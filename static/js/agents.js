// Agents → Context: the end of the bar sets the budget, and what a person unfolded stays open.
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
    const query = document.getElementById("context")?.dataset.query ?? "";
    for (const one of document.querySelectorAll("[data-context-query]")) one.value = query;
  });

  // Runs before htmx reads the form.
  document.addEventListener(
    "input",
    (event) => {
      if (event.target.id !== "context-range") return;
      document.getElementById("context-budget").value = Math.max(100, Number(event.target.value));
      const end = String((100 * event.target.value) / event.target.max);
      document.querySelector(".context-bar rect")?.setAttribute("width", end);
    },
    true,
  );

  // Its input event has sent the form already.
  document.addEventListener(
    "change",
    (event) => {
      if (event.target.id === "context-range") event.stopPropagation();
    },
    true,
  );
})();
