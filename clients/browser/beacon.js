// Sends a page or a selection to Beacon. Used by background.js and options.js.

export const MAX_TEXT_LENGTH = 500_000;

export async function settings() {
  const { url = "", token = "" } = await chrome.storage.local.get(["url", "token"]);
  return { url: url.replace(/\/+$/, ""), token };
}

// Returns a sentence that says what happened. Never throws.
export async function save({ title, url, text }) {
  const beacon = await settings();
  if (!beacon.url || !beacon.token) return { ok: false, told: "Enter Beacon's address and a token in the options." };
  const body = { title: title.slice(0, 500), text: text.slice(0, MAX_TEXT_LENGTH) };
  if (/^https?:/.test(url)) body.url = url.slice(0, 2048);
  try {
    const answer = await fetch(`${beacon.url}/api/v1/library`, {
      method: "POST",
      headers: { Authorization: `Bearer ${beacon.token}`, "Content-Type": "application/json" },
      body: JSON.stringify(body),
    });
    if (answer.ok) return { ok: true, told: `Saved “${(await answer.json()).title}”.` };
    const problem = await answer.json().catch(() => ({}));
    return { ok: false, told: problem.detail || `Beacon answered ${answer.status}. Nothing was saved.` };
  } catch {
    return { ok: false, told: `Beacon can't be reached at ${beacon.url}. Nothing was saved.` };
  }
}
