// Toasts close after ten seconds, unless hovered or focused. The server can send one with
// `HX-Trigger: {"toast": {"text": "…", "level": "success"}}`.
// A newer toast replaces those that only confirm something, and the one with the same text. Errors and toasts
// with Undo stay. At most three are shown, the newest at the bottom (Activity can undo the others too).
(() => {
  const STAY = 10_000;
  const MAX = 3;
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

  const textOf = (toast) => toast.querySelector("span")?.textContent;
  const stays = (toast) => toast.matches(".error, .warning") || toast.querySelector("form");
  // One response can have several.
  const replace = (added) => {
    const texts = new Set(added.map(textOf));
    const older = [...region.children].filter((one) => !added.includes(one));
    older.filter((one) => texts.has(textOf(one)) && !one.querySelector("form")).forEach((one) => one.remove());
    older.filter((one) => !stays(one)).forEach(leave);
  };

  const toast = ({ text, level = "info" }) => {
    const made = blank.content.firstElementChild.cloneNode(true);
    made.classList.add(level);
    made.querySelector("span").textContent = text;
    region.append(made);
  };

  // The height they take at the bottom of the window: the page gets that much extra room, and the bulk bar
  // moves above them. The room stays, so that nothing moves under a finger when they close.
  const root = document.documentElement;
  let room = 0;
  // They move to the top of the window if they would cover the button that was just pressed.
  const dodge = () => {
    region.classList.remove("above");
    const pressed = document.activeElement;
    if (!pressed?.matches("main :is(button, a)") || region.contains(pressed)) return;
    const { left, right, top, bottom } = pressed.getBoundingClientRect();
    const mine = region.getBoundingClientRect();
    const covers = mine.left < right && mine.right > left && mine.top < bottom && mine.bottom > top;
    region.classList.toggle("above", Boolean(mine.height) && covers);
  };
  const measure = () => {
    dodge();
    const { top, height } = region.getBoundingClientRect();
    const taken = height && !region.matches(".above") ? Math.ceil(innerHeight - top) + GAP : 0;
    room = Math.max(room, taken);
    root.style.setProperty("--toasts", `${taken}px`);
    root.style.setProperty("--toasts-room", `${room}px`);
  };
  new ResizeObserver(measure).observe(region);

  const crowd = () => {
    const standing = [...region.children].filter((one) => !one.classList.contains("leaving"));
    standing.slice(0, -MAX).filter((one) => !busy(one)).forEach(leave);
  };

  // The only place that starts the timer, for toasts of the page, htmx and scripts.
  region.querySelectorAll("[data-toast]").forEach(watch);
  new MutationObserver((changes) => {
    const added = changes.flatMap(({ addedNodes }) => [...addedNodes]).filter((one) => one.matches?.("[data-toast]"));
    added.forEach(watch);
    if (added.length) replace(added);
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
