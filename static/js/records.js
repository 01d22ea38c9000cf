// How many records of a list are ticked, in words beside what can be done to them.
(() => {
  const say = () => {
    const words = document.querySelector("#bulk [data-ticked]");
    if (!words) return;
    words.dataset.none ??= words.textContent;
    const ticked = document.querySelectorAll(".record-table tbody input[name=record]:checked").length;
    words.textContent = ticked ? words.dataset.words.replace("%s", ticked) : words.dataset.none;
  };
  document.addEventListener("change", say);
  document.addEventListener("click", () => setTimeout(say));
  document.addEventListener("htmx:afterSettle", say);
  say();
})();
