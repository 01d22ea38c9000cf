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
