import { settings } from "./beacon.js";

const [form, url, token, told] = ["form", "url", "token", "told"].map((id) => document.getElementById(id));
form.addEventListener("submit", async (event) => {
  event.preventDefault();
  const address = url.value.trim().replace(/\/+$/, "");
  // Asked here, because the browser wants a click for it.
  const isAllowed = await chrome.permissions.request({ origins: [`${new URL(address).origin}/*`] });
  await chrome.storage.local.set({ url: address, token: token.value.trim() });
  if (!isAllowed) {
    told.textContent = "Saved, but the browser doesn't let the extension reach this address yet.";
    return;
  }
  try {
    const headers = { Authorization: `Bearer ${token.value.trim()}` };
    const answer = await fetch(`${address}/api/v1/library?limit=1`, { headers });
    told.textContent = answer.ok ? "Saved. Beacon answers." : (await answer.json()).detail;
  } catch {
    told.textContent = `Saved, but Beacon can't be reached at ${address}.`;
  }
});

const stored = await settings();
url.value ||= stored.url;
token.value ||= stored.token;
