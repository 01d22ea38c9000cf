// The editor of a memory file. It counts bytes while you type, as the server does. CodeMirror replaces
// the textarea and keeps its value up to date, unless the person chose the plain field.
(() => {
  const encoder = new TextEncoder();
  const words = new Intl.NumberFormat(document.documentElement.lang);

  const count = (text) => {
    const meter = text.form.querySelector("[data-file-meter]");
    if (!meter) return;
    const { added, others, stored, most } = meter.dataset;
    const size = encoder.encode(text.value).length + Number(added);
    const used = size + Number(others);
    const over = used - Number(most);
    const change = size - Number(stored);
    const say = (name, said) => (meter.querySelector(`[data-${name}]`).textContent = said);
    meter.querySelector("meter").value = used;
    say("used", words.format(used));
    say("size", words.format(size));
    say("change", (change < 0 ? "" : "+") + words.format(change));
    if (over > 0) say("over-by", words.format(over));
    meter.querySelector("[data-over]").hidden = over <= 0;
    meter.hidden = used < Number(meter.dataset.high);
  };

  document.addEventListener("input", ({ target }) => target.matches("[data-file-text]") && count(target));

  const PLAIN = "beacon-plain-editor";
  const isPlain = () => {
    try {
      return localStorage.getItem(PLAIN) === "yes";
    } catch {
      return false; // no storage: the choice isn't kept
    }
  };

  const dress = (text) => {
    const words = document.getElementById("editor-words");
    if (!window.BeaconEditor || text.hidden || !words) return;
    const phrases = [...words.content.querySelectorAll("[data-phrase]")];
    const view = BeaconEditor.mount(text, {
      nonce: words.dataset.nonce,
      words: Object.fromEntries(phrases.map((one) => [one.dataset.phrase, one.textContent])),
    });
    const box = Object.assign(document.createElement("div"), { className: "file-code" });
    box.toggleAttribute("data-invalid", text.hasAttribute("aria-invalid"));
    box.append(view.dom);
    text.after(box);
    // The browser focuses the textarea before or after this script, or not at all once it's hidden.
    const isFocused = document.activeElement === text || (text.autofocus && document.activeElement === document.body);
    text.hidden = true;
    text.focus = () => view.focus(); // for code that focuses the first invalid control
    text.labels[0].addEventListener("click", () => view.focus());
    if (!isFocused) return;
    view.dispatch({ selection: { anchor: view.state.doc.length } }); // most people add something
    view.focus();
  };

  const undress = (text) => {
    text.parentElement.querySelector(".file-code")?.remove();
    delete text.focus;
    text.hidden = false;
  };

  document.addEventListener("click", ({ target }) => {
    const button = target.closest("[data-editor-choice]");
    const text = button?.form.querySelector("[data-file-text]");
    if (!text) return;
    try {
      localStorage.setItem(PLAIN, text.hidden ? "yes" : "no");
    } catch {
      // No storage: the choice applies to this page only.
    }
    if (text.hidden) undress(text);
    else dress(text);
    button.setAttribute("aria-pressed", String(!text.hidden));
    text.focus();
  });

  document.addEventListener("htmx:load", () =>
    document.querySelectorAll("[data-file-text]").forEach((text) => {
      count(text);
      if (!isPlain()) dress(text);
      text.form.querySelector("[data-editor-choice]")?.setAttribute("aria-pressed", String(!text.hidden));
    }),
  );
})();
