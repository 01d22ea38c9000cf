// The menu entries and the toolbar button. Text is read from a page only when one of them is used.
import { save } from "./beacon.js";

chrome.runtime.onInstalled.addListener(() => {
  chrome.contextMenus.create({ id: "selection", title: "Save selection to Beacon", contexts: ["selection"] });
  chrome.contextMenus.create({ id: "page", title: "Save page to Beacon", contexts: ["page"] });
});

chrome.contextMenus.onClicked.addListener((info, tab) => saveTab(tab, info.menuItemId === "selection"));
chrome.action.onClicked.addListener((tab) => saveTab(tab, false));

// What the person sees is saved, so pages that need an account work, too.
function textOf(onlySelection) {
  const selected = String(getSelection()).trim();
  if (onlySelection || selected) return selected;
  return (document.querySelector("article, main") || document.body).innerText.trim();
}

async function saveTab(tab, onlySelection) {
  let text;
  try {
    const target = { tabId: tab.id };
    [{ result: text }] = await chrome.scripting.executeScript({ target, func: textOf, args: [onlySelection] });
  } catch {
    return show(tab, { ok: false, told: "The browser doesn't let extensions read this page." });
  }
  if (!text) return show(tab, { ok: false, told: "There is no text to save." });
  return show(tab, await save({ title: tab.title || "", url: tab.url || "", text }));
}

async function show(tab, { ok, told }) {
  await chrome.action.setBadgeBackgroundColor({ color: ok ? "#1b6638" : "#a02828" });
  await chrome.action.setBadgeText({ tabId: tab.id, text: ok ? "✓" : "!" });
  await chrome.action.setTitle({ tabId: tab.id, title: told });
  if (!ok && told.includes("options")) chrome.runtime.openOptionsPage();
  return told;
}

self.saveTab = saveTab; // for tests, which can't click a menu entry
