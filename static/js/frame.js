// Scripts of every page: focus after a swap, theme buttons, read marks, a warning about unsaved text, and
// menus that close.
(() => {
  // The current token: signing in again in another tab replaces the one that this page got.
  const cookie = () => document.cookie.match(/(?:^|; )csrftoken=([^;]+)/)?.[1];
  const token = () => cookie() ?? JSON.parse(document.body.getAttribute("hx-headers") || "{}")["X-CSRFToken"];
  const FIELD = "csrfmiddlewaretoken";
  document.addEventListener("htmx:configRequest", ({ detail }) => {
    if (detail.verb === "get") return;
    detail.headers["X-CSRFToken"] = token();
    if (detail.parameters[FIELD]) detail.parameters[FIELD] = token();
  });
  // A double click sends a form once, so it can't create two notes.
  const HURRY = 1_000;
  const pressed = new WeakMap();
  const once = (event) => {
    const { target, submitter } = event;
    if (target.getAttribute("method")?.toLowerCase() !== "post") return;
    const last = pressed.get(target);
    if (last && last.submitter === submitter && event.timeStamp - last.at < HURRY) {
      event.preventDefault();
      event.stopImmediatePropagation();
    } else pressed.set(target, { submitter, at: event.timeStamp });
  };
  document.addEventListener("submit", once, true); // before htmx, which listens on the form
  document.addEventListener("submit", ({ target }) => {
    const field = target.elements.namedItem(FIELD);
    if (field && cookie()) field.value = cookie();
  });

  // Files that are dropped anywhere on a page with form[data-drop] are sent with it. Folders aren't files.
  const isDrop = ({ dataTransfer }) => dataTransfer?.types.includes("Files") && document.querySelector("form[data-drop]");
  document.addEventListener("dragover", (event) => {
    const form = isDrop(event);
    if (!form) return;
    event.preventDefault();
    form.hidden = false;
  });
  document.addEventListener("dragleave", (event) => {
    const form = isDrop(event);
    if (form && !event.relatedTarget) form.hidden = true; // it left the window
  });
  document.addEventListener("drop", (event) => {
    const form = isDrop(event);
    if (!form) return;
    event.preventDefault();
    const files = new DataTransfer();
    for (const item of event.dataTransfer.items)
      if (item.kind === "file" && !item.webkitGetAsEntry?.()?.isDirectory) files.items.add(item.getAsFile());
    form.hidden = !files.files.length;
    form.querySelector("[type=file]").files = files.files;
    if (files.files.length) form.requestSubmit();
  });

  // After a swap that a person started, focus the new region's first invalid control, or its heading.
  // One response settles several elements: the first outside toasts, filters, tabs and the navigation counts.
  const ASKED = new Set(["click", "submit"]);
  const settled = new WeakSet();
  document.addEventListener("htmx:afterSettle", ({ detail }) => {
    const { elt, target, requestConfig, xhr } = detail;
    const cause = requestConfig?.triggeringEvent;
    if (!ASKED.has(cause?.type) || settled.has(xhr) || elt.closest("#toasts, #facts-bar, .tabs, .rail, .phone-bar")) return;
    settled.add(xhr);
    if (requestConfig.elt.closest("[data-keep-focus]")?.checkVisibility()) return;
    const region = target.isConnected ? target : elt; // outerHTML has removed the target
    const goal =
      region.querySelector("[aria-invalid=true], [data-focus]") ?? region.querySelector("h1, h2, h3, legend") ?? region;
    if (goal.tabIndex < 0) goal.tabIndex = -1;
    const isInUse = document.activeElement === goal; // a fast person has begun to select or type
    goal.focus();
    // Most corrections of a sentence are at its end. Browsers start at its beginning.
    if (!isInUse && goal.matches("textarea[data-focus]")) goal.setSelectionRange(goal.value.length, goal.value.length);
  });

  // Tabs that scroll show the selected one in the middle.
  const showTab = () =>
    document.querySelectorAll(".tabs").forEach((tabs) => {
      const tab = tabs.querySelector("[aria-current]");
      if (!tab || tabs.scrollWidth <= tabs.clientWidth) return;
      const [a, b] = [tab.getBoundingClientRect(), tabs.getBoundingClientRect()];
      tabs.scrollLeft += a.left + a.width / 2 - b.left - b.width / 2;
    });
  showTab();
  addEventListener("resize", showTab);
  document.addEventListener("htmx:afterSettle", ({ detail }) => detail.elt.matches(".tabs") && showTab());

  // Theme: auto follows the system. A choice is kept in this browser.
  const buttons = document.querySelectorAll("[data-theme-choice]");
  const showTheme = () => {
    const now = document.documentElement.dataset.theme ?? "auto";
    buttons.forEach((button) => button.setAttribute("aria-pressed", String(button.dataset.themeChoice === now)));
  };
  buttons.forEach((button) =>
    button.addEventListener("click", () => {
      const { themeChoice } = button.dataset;
      if (themeChoice === "auto") delete document.documentElement.dataset.theme;
      else document.documentElement.dataset.theme = themeChoice;
      try {
        localStorage.setItem("beacon-theme", themeChoice);
      } catch {
        // No storage: the choice applies to this page only.
      }
      showTheme();
    }),
  );
  showTheme();

  // A link to a closed fold, or to something in one, opens it.
  const unfold = () => {
    const target = document.querySelector(":target");
    const row = target?.closest(".fold-row"); // a browser may have opened it already
    if (row && row === target.parentElement) row.querySelector("summary").focus();
    const folds = [];
    for (let fold = target?.closest("details"); fold; fold = fold.parentElement.closest("details")) folds.push(fold);
    if (!folds.some((fold) => !fold.open)) return;
    folds.forEach((fold) => (fold.open = true));
    target.scrollIntoView();
  };
  addEventListener("hashchange", unfold);
  // The same link again changes no hash.
  document.addEventListener("click", (event) => {
    if (event.target.closest('a[href^="#"]')) setTimeout(unfold);
  });
  addEventListener("load", unfold); // before it, a browser may not know the target yet

  // A button with data-close-opened empties what a button of the line opened below it, which then has focus.
  document.addEventListener("click", ({ target }) => {
    const opened = target.closest("[data-close-opened]")?.closest(".opened");
    if (!opened) return;
    opened.replaceChildren();
    opened.parentElement.querySelector(":scope > .line-acts > a")?.focus();
  });

  // <article data-mark-read="/url/">: read after two seconds on screen. With data-mark-read-on="act" (the
  // page opened by itself after a run was watched) only after a key, a click or scrolling.
  const markRead = (element) => {
    const address = element.dataset.markRead;
    if (!address || document.visibilityState !== "visible") return;
    delete element.dataset.markRead;
    fetch(address, {
      method: "POST",
      headers: { "X-CSRFToken": token(), "X-Requested-With": "fetch" },
      keepalive: true,
    }).then((answer) => {
      if (answer.ok) document.dispatchEvent(new CustomEvent("beacon:read"));
    }, () => {
      element.dataset.markRead = address; // offline: it stays unread
    });
  };
  // Watching a run isn't reading its report: the URL records it when the page reloads at the end.
  if (document.querySelector("[data-watching]")) {
    const address = new URL(location.href);
    address.searchParams.set("watched", "1");
    history.replaceState(history.state, "", address);
  }
  const ACTS = ["pointerdown", "keydown", "wheel", "touchmove"];
  const lookForUnread = () =>
    document.querySelectorAll("[data-mark-read]").forEach((element) => {
      if (element.dataset.markReadOn !== "act") setTimeout(() => markRead(element), 2_000);
      else ACTS.forEach((act) => document.addEventListener(act, () => markRead(element), { once: true }));
    });
  lookForUnread();
  document.addEventListener("visibilitychange", lookForUnread);
  document.addEventListener("htmx:load", lookForUnread);

  // <button data-print> prints the page.
  document.addEventListener("click", ({ target }) => target.closest("[data-print]") && print());

  // <form data-guard>: asks before you leave with unsaved text, and before a swap replaces it.
  const changed = new Set();
  document.addEventListener("input", ({ target }) => {
    const form = target.closest("form[data-guard]");
    if (form) changed.add(form);
  });
  document.addEventListener("submit", ({ target }) => changed.delete(target));
  addEventListener("beforeunload", (event) => {
    if ([...changed].some((form) => form.isConnected)) event.preventDefault();
  });
  document.addEventListener("htmx:confirm", (event) => {
    const { elt, target, triggeringEvent } = event.detail;
    if (!ASKED.has(triggeringEvent?.type) || !target) return;
    const lost = [...changed].filter((form) => form.isConnected && target.contains(form) && !form.contains(elt));
    if (!lost.length) return;
    if (confirm(document.getElementById("toast-words").dataset.unsaved)) lost.forEach((form) => changed.delete(form));
    else event.preventDefault();
  });

  // Without a network, a line at the top of the page says so.
  const offline = document.getElementById("offline");
  const showNetwork = () => offline && (offline.hidden = navigator.onLine);
  addEventListener("online", showNetwork);
  addEventListener("offline", showNetwork);
  showNetwork();

  // Menus close on Escape and on a click elsewhere; "select page" selects the page.
  const MENUS = "details.account[open], details.dropdown[open]";
  document.addEventListener("click", ({ target }) => {
    document.querySelectorAll(MENUS).forEach((menu) => menu.contains(target) || menu.removeAttribute("open"));
  });
  // A menu that doesn't fit above the bottom of the window, or the phone's bar there, opens upwards if it fits there.
  const showUpwards = ({ target }) => {
    if (!target.matches?.("details.dropdown")) return;
    target.classList.remove("upwards");
    const menu = target.querySelector(".menu")?.getBoundingClientRect();
    if (!target.open || !menu) return;
    const bar = document.querySelector(".phone-bar")?.getBoundingClientRect();
    const end = bar?.height ? bar.top : innerHeight;
    const isTooLow = menu.bottom > end && menu.height < target.getBoundingClientRect().top - (bar?.height ?? 0);
    target.classList.toggle("upwards", isTooLow);
  };
  document.addEventListener("toggle", showUpwards, true);
  document.addEventListener("keydown", ({ key }) => {
    const menu = key === "Escape" && document.querySelector(MENUS);
    if (!menu) return;
    menu.removeAttribute("open");
    menu.querySelector("summary").focus();
  });
  // A conversation opens at its latest message, unless the browser restores where the person was.
  const newest = location.hash ? null : document.querySelector("[data-newest]");
  if (newest && performance.getEntriesByType("navigation")[0]?.type === "navigate") newest.scrollIntoView({ block: "end" });
  // On touch screens and phones the checkboxes of rows are there while “Select” is pressed.
  document.addEventListener("click", ({ target }) => {
    if (!target.closest("[data-select-rows]")) return;
    if (!document.body.classList.toggle("selecting")) {
      document.querySelectorAll("[data-rows] input[type=checkbox], [data-select-page]").forEach((one) => (one.checked = false));
    }
    showPressed();
  });
  const showPressed = () =>
    document
      .querySelectorAll("[data-select-rows]")
      .forEach((one) => one.setAttribute("aria-pressed", document.body.classList.contains("selecting")));
  document.addEventListener("htmx:afterSettle", showPressed);
  document.addEventListener("change", ({ target }) => {
    if (!target.matches("[data-select-page]")) return;
    const { selectPage } = target.dataset; // what it selects, if not its own table
    const boxes = selectPage
      ? document.querySelectorAll(selectPage)
      : target.closest("form, table").querySelectorAll("tbody input[type=checkbox]");
    // Rows that are folded away, such as near-duplicates, aren't selected unseen.
    const isShown = (one) => one.closest("tr")?.checkVisibility?.() ?? true;
    boxes.forEach((one) => (one.checked = target.checked && isShown(one)));
  });
})();
