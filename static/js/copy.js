// <button data-copy="#id"> copies that element's text. data-copy-text has the text itself. A toast says so, or
// on a page without toasts the button itself, with the word in data-copied.
document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-copy], [data-copy-text]");
  if (!button) return;
  const { copy, copyText, copied } = button.dataset;
  const from = copy && document.querySelector(copy);
  // Without https, browsers have no clipboard. Then the text is shown and selected, for Ctrl+C.
  if (!navigator.clipboard) {
    from?.classList.remove("no-js");
    if (from?.select) from.select();
    else if (from) getSelection().selectAllChildren(from);
    return;
  }
  await navigator.clipboard.writeText(copyText ?? from?.value ?? from?.textContent ?? "");
  if (copied) {
    button.lastChild.textContent = copied;
    return;
  }
  const text = document.getElementById("toast-words").dataset.copied;
  document.dispatchEvent(new CustomEvent("toast", { detail: { text, level: "success" } }));
});
