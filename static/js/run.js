// The page of a run. During a run, an idle poll has no body and its heartbeat arrives as an event.
// times.js does the counting.
document.addEventListener("beacon:beat", ({ detail }) => {
  if (!detail.at) return;
  document.querySelectorAll("time[data-beat]").forEach((time) => {
    time.dateTime = detail.at;
  });
});

// What a person unfolded stays open when the next poll replaces it.
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
