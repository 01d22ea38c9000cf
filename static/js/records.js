// The number of selected records beside the bulk actions, and the panel of a record, which returns the
// focus to its row when it closes.
(() => {
  const say = () => {
    const words = document.querySelector("#bulk [data-ticked]");
    if (!words) return;
    words.dataset.none ??= words.textContent;
    const ticked = document.querySelectorAll("input[name=record]:checked").length;
    words.textContent = ticked ? words.dataset.words.replace("%s", ticked) : words.dataset.none;
  };
  let opener = null;
  document.addEventListener("click", ({ target }) => {
    const row = target.closest("[data-rows] [data-row-link]");
    if (row) {
      opener = row;
      // Keyboard moves continue from the opened row.
      document.querySelectorAll("[data-rows] .here").forEach((one) => one.classList.remove("here"));
      row.closest("tr, li").classList.add("here");
    }
    if (!target.closest("[data-close-panel]")) return;
    document.getElementById("record-panel")?.replaceChildren();
    if (opener?.isConnected) opener.focus();
  });
  document.addEventListener("change", say);
  document.addEventListener("click", () => setTimeout(say));
  document.addEventListener("htmx:afterSettle", say);
  say();
})();
