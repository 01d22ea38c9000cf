// The service worker of notifications: it shows what Beacon pushed, and opens the page it's about.
// It handles no requests of pages.
self.addEventListener("install", () => self.skipWaiting());

self.addEventListener("push", (event) => {
  let told = {};
  try {
    told = event.data.json();
  } catch {
    // A message that isn't ours still has to be shown, or the browser shows a default one.
  }
  const { title = "Beacon", body = "", url = "/", tag = "" } = told;
  event.waitUntil(self.registration.showNotification(title, { body, tag, data: { url } }));
});

self.addEventListener("notificationclick", (event) => {
  event.notification.close();
  const url = new URL(event.notification.data.url, self.location.origin);
  if (url.origin !== self.location.origin) return;
  event.waitUntil(
    self.clients.matchAll({ type: "window" }).then((open) => {
      const same = open.find((one) => one.url === url.href);
      return same ? same.focus() : self.clients.openWindow(url.href);
    }),
  );
});
