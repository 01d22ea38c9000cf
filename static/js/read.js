// The page on which a topic is read. The selection of runs has two edges: sliders that can be dragged or
// moved with the arrow keys. A click on a run selects it. Without scripts, two lists do the same.
(() => {
  const PAUSE = 250; // ms after the last key, so that holding one doesn't load every selection
  let clock = 0;

  const parts = () => {
    const form = document.getElementById("strip-form");
    return form && {
      form,
      from: document.getElementById("edge-from"),
      to: document.getElementById("edge-to"),
      lists: [document.getElementById("strip-from"), document.getElementById("strip-to")],
      area: form.querySelector(".selection"),
    };
  };
  const labelOf = (lists, place) => lists[0].options[place]?.dataset.label ?? "";

  // Put both sliders, the drawing and the lists at the same runs: columns first to last.
  const show = (first, last) => {
    const { from, to, lists, area } = parts();
    from.value = first;
    to.value = last + 1;
    from.setAttribute("aria-valuetext", labelOf(lists, first));
    to.setAttribute("aria-valuetext", labelOf(lists, last));
    area.setAttribute("x", String(first * 10));
    area.setAttribute("width", String((last - first + 1) * 10));
    lists[0].selectedIndex = first;
    lists[1].selectedIndex = last;
  };

  const load = (wait) => {
    clearTimeout(clock);
    clock = setTimeout(() => parts()?.form.requestSubmit(), wait);
  };

  document.addEventListener("input", ({ target }) => {
    if (target.id !== "edge-from" && target.id !== "edge-to") return;
    const { from, to } = parts();
    const most = Number(from.max);
    let first = Math.min(Number(from.value), most - 1);
    let last = Math.max(Number(to.value), 1) - 1;
    if (target === from) first = Math.min(first, last);
    else last = Math.max(first, last);
    show(first, last);
    load(PAUSE);
  });

  document.addEventListener("click", (event) => {
    const day = event.target.closest?.(".strip-days.each > span"); // the label below a run's column
    const runs = document.querySelectorAll(".strip-chart a");
    const run = day ? runs[[...day.parentElement.children].indexOf(day)] : event.target.closest?.(".strip-chart a");
    if (!run || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    const place = Number(run.dataset.place);
    show(place, place);
    load(0);
  });

  // A pressed or selected sentence offers what can be done with it.
  const mark = (line) => {
    document.querySelectorAll("li.line.here").forEach((one) => one.classList.toggle("here", one === line));
    line.classList.add("here");
  };
  document.addEventListener("click", ({ target }) => {
    const line = target.closest?.("li.line");
    if (!line || target.closest("a, button, form, summary")) return;
    mark(line);
  });
  document.addEventListener("selectionchange", () => {
    const selection = getSelection();
    const node = selection.isCollapsed ? null : selection.anchorNode;
    const line = (node?.nodeType === Node.TEXT_NODE ? node.parentElement : node)?.closest?.(".says")?.closest("li.line");
    if (line) mark(line);
  });

  const begin = () => {
    const { from, to } = parts() ?? {};
    if (from) show(Number(from.value), Number(to.value) - 1);
  };
  begin();
})();
