// Subscribes this browser to notifications when the form of a new channel is sent. The form holds the
// key of the server, and a hidden field takes the subscription.
(() => {
  const form = document.querySelector("form[data-push-key]");
  if (!form) return;
  const field = form.querySelector("[data-push-subscription]");

  const say = (which) => {
    for (const each of form.querySelectorAll("[data-push-problem]")) {
      each.hidden = each.dataset.pushProblem !== which;
    }
    const shown = form.querySelector("[data-push-problem]:not([hidden])");
    if (shown) shown.scrollIntoView({ block: "nearest" });
  };

  const bytes = (text) => {
    const padded = text.replaceAll("-", "+").replaceAll("_", "/");
    return Uint8Array.from(atob(padded), (sign) => sign.charCodeAt(0));
  };

  const active = (registration) =>
    new Promise((done) => {
      const worker = registration.installing ?? registration.waiting ?? registration.active;
      const tell = () => worker.state === "activated" && done();
      worker.addEventListener("statechange", tell);
      tell();
    });

  const subscribe = async () => {
    const worker = form.dataset.pushWorker;
    const registration = await navigator.serviceWorker.register(worker);
    await active(registration);
    const applicationServerKey = bytes(form.dataset.pushKey);
    const old = await registration.pushManager.getSubscription();
    const known = new Uint8Array(old?.options.applicationServerKey ?? []);
    if (old && !applicationServerKey.every((one, at) => one === known[at])) {
      await old.unsubscribe(); // of an earlier SECRET_KEY
    }
    return registration.pushManager.subscribe({ userVisibleOnly: true, applicationServerKey });
  };

  if (!("serviceWorker" in navigator) || !("PushManager" in window)) {
    say("unsupported");
    form.querySelector("[type=submit]").disabled = true;
    return;
  }
  form.addEventListener("submit", async (event) => {
    if (field.value) return;
    event.preventDefault();
    event.stopImmediatePropagation();
    if ((await Notification.requestPermission()) !== "granted") {
      say("denied");
      return;
    }
    try {
      field.value = JSON.stringify(await subscribe());
    } catch {
      say("failed");
      return;
    }
    say("");
    form.requestSubmit();
  }, { capture: true });
})();
