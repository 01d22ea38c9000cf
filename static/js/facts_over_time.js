// Facts over time: the date line moves while it is dragged. What is known then is loaded afterwards.
(() => {
  const form = document.querySelector("[data-lanes-form]");
  const range = form?.querySelector("input[type=range]");
  if (!range) return;
  document.getElementById("over-time").classList.add("js-lanes");
  const line = document.querySelector("[data-lanes-line]");
  const place = document.querySelector("[data-lanes-place]");
  const words = [...form.querySelectorAll("datalist option")].map((option) => option.label);

  range.addEventListener("input", () => {
    const slot = Number(range.value);
    line.setAttribute("d", `M${(100 * slot) / Number(range.max)} 0V10`);
    place.textContent = words[slot];
    range.setAttribute("aria-valuetext", words[slot]);
    for (const cell of document.querySelectorAll(".lanes td[data-start]")) {
      cell.classList.toggle("later", Number(cell.dataset.start) >= 2 * slot);
    }
    for (const body of document.querySelectorAll(".lanes tbody")) {
      const cells = [...body.querySelectorAll("td[data-start]")];
      body.classList.toggle("later", cells.every((cell) => cell.classList.contains("later")));
    }
  });
  // With the keyboard, each press is a change: wait until the presses end.
  let clock = 0;
  range.addEventListener("change", () => {
    clearTimeout(clock);
    clock = setTimeout(() => form.requestSubmit(), 700);
  });
  if (sessionStorage.getItem("date-line") === location.pathname) range.focus({ preventScroll: true });
  sessionStorage.removeItem("date-line");
  form.addEventListener("submit", () => sessionStorage.setItem("date-line", location.pathname));
})();
