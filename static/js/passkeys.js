// Passkeys: creates one, or signs in with one, and sends the browser's answer with the form.
(() => {
  const form = document.querySelector("form[data-passkey]");
  const problem = document.querySelector("[data-passkey-problem]");
  if (!form) return;
  const works = window.PublicKeyCredential?.parseRequestOptionsFromJSON;
  form.hidden = !works;
  const say = (words) => {
    problem.textContent = words;
    problem.hidden = false;
  };
  if (!works) {
    if (form.dataset.passkey === "create") say(problem.dataset.unsupported);
    return;
  }
  const created = () => {
    const { publicKey } = JSON.parse(document.getElementById("passkey-options").textContent);
    return navigator.credentials.create({
      publicKey: PublicKeyCredential.parseCreationOptionsFromJSON(publicKey),
    });
  };
  const signed = async () => {
    const reply = await fetch(form.action, { method: "POST", body: new FormData(form) });
    if (!reply.ok) throw new Error(reply.statusText);
    const { publicKey } = await reply.json();
    return navigator.credentials.get({
      publicKey: PublicKeyCredential.parseRequestOptionsFromJSON(publicKey),
    });
  };
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    problem.hidden = true;
    try {
      const answer = await (form.dataset.passkey === "create" ? created() : signed());
      form.elements.credential.value = JSON.stringify(answer.toJSON());
      form.submit();
    } catch (error) {
      const known = error.name === "InvalidStateError" ? "known" : "failed";
      say(problem.dataset[known] ?? problem.dataset.failed);
    }
  });
})();
