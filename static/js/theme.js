// Runs before the first paint: the theme a person chose, and the sign that scripts work.
(() => {
  const root = document.documentElement;
  root.classList.add("js");
  try {
    const choice = localStorage.getItem("beacon-theme");
    if (choice === "light" || choice === "dark") root.dataset.theme = choice;
  } catch {
    // Storage is closed to us: the system's theme it is.
  }
})();
