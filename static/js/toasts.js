// Toasts close after ten seconds, unless hovered or focused. The server can send one with
// `HX-Trigger: {"toast": {"text": "…", "level": "success"}}`.
// At most three are shown, the newest at the bottom. A fourth closes the oldest (Activity can undo it too).
(() => {
  const STAY = 10_000;
  const MOST = 3;
  const GAP = 12; // the gap between the toasts and whatever moves out of their way
  const region = document.getElementById("toasts");
  const words = document.getElementById("toast-words")?.dataset ?? {};
  const blank = document.getElementById("toast-template");
  if (!region) return;

  const busy = (toast) => toast.matches(":hover") || toast.contains(document.activeElement);

  const leave = (toast) => {
    toast.classList.add("leaving");
    setTimeout(() => toast.remove(), 260);
  };

  const watch = (toast) => {
    const later = () => {
      if (!toast.isConnected) return;
      if (busy(toast)) setTimeout(later, 2_000);
      else leave(toast);
    };
    setTimeout(later, STAY);
  };

  // A draft that can't be kept is retried at each pause: its reason is shown once, at the bottom.
  const said = (text) =>
    [...region.children].find((one) => one.querySelector("span")?.textContent === text && !one.querySelector("form"));

  const toast = ({ text, level = "info" }) => {
    const made = blank.content.firstElementChild.cloneNode(true);
    made.classList.add(level);
    made.querySelector("span").textContent = text;
    said(text)?.remove();
    region.append(made);
  };

  // The height they take at the bottom of the window: the page gets that much extra room, and the bulk bar
  // moves above them. The room stays, so that nothing moves under a finger when they close.
  const root = document.documentElement;
  let room = 0;
  const measure = () => {
    const { top, height } = region.getBoundingClientRect();
    const taken = height ? Math.ceil(innerHeight - top) + GAP : 0;
    room = Math.max(room, taken);
    root.style.setProperty("--toasts", `${taken}px`);
    root.style.setProperty("--toasts-room", `${room}px`);
  };
  new ResizeObserver(measure).observe(region);

  const crowd = () => {
    const standing = [...region.children].filter((one) => !one.classList.contains("leaving"));
    standing.slice(0, -MOST).filter((one) => !busy(one)).forEach(leave);
  };

  // The only place that starts the timer, for toasts of the page, htmx and scripts.
  region.querySelectorAll("[data-toast]").forEach(watch);
  new MutationObserver((changes) => {
    for (const { addedNodes } of changes)
      for (const node of addedNodes) if (node.matches?.("[data-toast]")) watch(node);
    crowd();
  }).observe(region, { childList: true });

  document.addEventListener("click", (event) => {
    const close = event.target.closest("[data-close]");
    if (close) leave(close.closest("[data-toast]"));
  });

  document.addEventListener("toast", (event) => {
    toast(event.detail);
  });

  const failed = (status) => {
    if (status === 403) return words.forbidden;
    if (status === 404) return words.gone;
    return words.error.replace("%s", status);
  };
  document.addEventListener("htmx:responseError", (event) => {
    const { xhr } = event.detail;
    // A response with its own toast has given the reason.
    if (xhr.getResponseHeader("HX-Trigger")) return;
    toast({ text: failed(xhr.status), level: "error" });
  });
  // Toasts are only for what a person did: a poll during a restart would show one every two seconds.
  for (const name of ["htmx:sendError", "htmx:timeout"])
    document.addEventListener(name, (event) => {
      const cause = event.detail.requestConfig?.triggeringEvent?.type;
      if (cause === "click" || cause === "submit") toast({ text: words.offline, level: "error" });
    });
})();
