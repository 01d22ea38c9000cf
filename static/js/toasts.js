// Toasts: they leave after ten seconds unless someone is at them; a server may send one by
// `HX-Trigger: {"toast": {"text": "…", "level": "success", "undo": "/address/"}}`.
// Three stand at most, the newest at the foot; the oldest leaves for a fourth (Activity undoes it too).
(() => {
  const STAY = 10_000;
  const MOST = 3;
  const GAP = 12; // between the toasts and what is moved clear of them
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

  const csrf = () => {
    const headers = document.body.getAttribute("hx-headers");
    return headers ? JSON.parse(headers)["X-CSRFToken"] : "";
  };

  const undoForm = (address) => {
    const form = document.createElement("form");
    form.method = "post";
    form.action = address;
    const here = location.pathname + location.search;
    for (const [name, value] of [["csrfmiddlewaretoken", csrf()], ["next", here]]) {
      const input = document.createElement("input");
      Object.assign(input, { type: "hidden", name, value });
      form.append(input);
    }
    const button = document.createElement("button");
    button.textContent = words.undo;
    form.append(button);
    return form;
  };

  // A draft that cannot be kept is tried again at each pause: the reason stands once, at the foot.
  const said = (text) =>
    [...region.children].find((one) => one.querySelector("span")?.textContent === text && !one.querySelector("form"));

  const toast = ({ text, level = "info", undo = "" }) => {
    const made = blank.content.firstElementChild.cloneNode(true);
    made.classList.add(level);
    made.querySelector("span").textContent = text;
    if (undo) made.querySelector("[data-close]").before(undoForm(undo));
    else said(text)?.remove();
    region.append(made);
  };

  // How much of the window's foot they take: the page ends below it, and the bar of bulk acts rises
  // over it.  The room stays once it was given, so that nothing moves under a finger as they leave.
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

  // One place that starts the clock, for those of the page, of htmx, and of scripts alike.
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
    const { text, level, undo } = event.detail;
    // Only an address of our own may take the person's token.
    toast({ text, level, undo: undo?.startsWith("/") && !undo.startsWith("//") ? undo : "" });
  });

  const failed = (status) => {
    if (status === 403) return words.forbidden;
    if (status === 404) return words.gone;
    return words.error.replace("%s", status);
  };
  document.addEventListener("htmx:responseError", (event) => {
    const { xhr } = event.detail;
    // An answer that brings a toast of its own has said why.
    if (xhr.getResponseHeader("HX-Trigger")) return;
    toast({ text: failed(xhr.status), level: "error" });
  });
  // A poll that meets a restart is no news worth a toast every two seconds: only what a person did.
  for (const name of ["htmx:sendError", "htmx:timeout"])
    document.addEventListener(name, (event) => {
      const cause = event.detail.requestConfig?.triggeringEvent?.type;
      if (cause === "click" || cause === "submit") toast({ text: words.offline, level: "error" });
    });
})();
