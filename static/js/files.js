// The editor of a memory file: its bytes are counted while one types, as the server will count them.
(() => {
  const encoder = new TextEncoder();
  const words = new Intl.NumberFormat(document.documentElement.lang);

  const count = (text) => {
    const meter = text.form.querySelector("[data-file-meter]");
    if (!meter) return;
    const { others, stored, most } = meter.dataset;
    const size = encoder.encode(text.value).length;
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
  };

  document.addEventListener("input", ({ target }) => target.matches("[data-file-text]") && count(target));
  document.addEventListener("htmx:load", () => document.querySelectorAll("[data-file-text]").forEach(count));
})();
