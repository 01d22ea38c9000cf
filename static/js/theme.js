// Runs before the first paint: sets the chosen theme, and marks that scripts work.
(() => {
  const root = document.documentElement;
  root.classList.add("js");
  try {
    const choice = localStorage.getItem("beacon-theme");
    if (choice === "light" || choice === "dark") root.dataset.theme = choice;
  } catch {
    // No storage: use the system's theme.
  }
})();
