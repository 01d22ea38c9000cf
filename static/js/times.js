// <time datetime="2026-11-21T07:00:00+00:00"> reads as "3 hours ago", with the moment itself, in the
// person's time zone, as its title.  data-absolute keeps the server's text; data-elapsed counts on
// ("1 min 12 s"), for what is running.
(() => {
  const language = document.documentElement.lang || "en";
  const relative = new Intl.RelativeTimeFormat(language, { numeric: "auto" });
  const UNITS = [
    ["year", 31_557_600],
    ["month", 2_629_800],
    ["week", 604_800],
    ["day", 86_400],
    ["hour", 3_600],
    ["minute", 60],
  ];

  const moment = (() => {
    const style = { dateStyle: "full", timeStyle: "short" };
    const timeZone = document.body.dataset.timeZone || undefined;
    try {
      return new Intl.DateTimeFormat(language, { ...style, timeZone });
    } catch {
      return new Intl.DateTimeFormat(language, style); // a zone this browser does not know
    }
  })();

  const since = (seconds) => {
    for (const [unit, length] of UNITS)
      if (Math.abs(seconds) >= length) return relative.format(Math.trunc(seconds / length), unit);
    return relative.format(0, "second");
  };

  const elapsed = (seconds) => {
    const whole = Math.max(0, Math.floor(seconds));
    const [hours, minutes, rest] = [
      Math.floor(whole / 3600),
      Math.floor((whole % 3600) / 60),
      whole % 60,
    ];
    if (hours) return `${hours} h ${minutes} min`;
    return minutes ? `${minutes} min ${rest} s` : `${rest} s`;
  };

  const write = (time, text) => {
    if (time.textContent !== text) time.textContent = text;
  };

  const tell = (time) => {
    const at = new Date(time.dateTime);
    if (Number.isNaN(at.getTime()) || !time.dateTime.includes("T")) return;
    const seconds = (at - Date.now()) / 1000;
    if ("elapsed" in time.dataset) return write(time, elapsed(-seconds));
    if (!time.title) time.title = moment.format(at);
    if (!("absolute" in time.dataset)) write(time, since(seconds));
  };

  const tellAll = (root) => root.querySelectorAll("time[datetime]").forEach(tell);

  tellAll(document);
  document.addEventListener("htmx:load", (event) => tellAll(event.detail.elt));
  setInterval(() => tellAll(document), 30_000);
  setInterval(() => document.querySelectorAll("time[data-elapsed]").forEach(tell), 1_000);
})();
