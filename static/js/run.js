// The page of a run that goes on: an idle poll answers without a body, and its heartbeat travels as
// an event; the counting itself is times.js's work.
document.addEventListener("beacon:beat", ({ detail }) => {
  if (!detail.at) return;
  document.querySelectorAll("time[data-beat]").forEach((time) => {
    time.dateTime = detail.at;
  });
});
