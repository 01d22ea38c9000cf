// <time datetime="2026-11-21T07:00:00+00:00"> reads as "3 hours ago", with the full time in the
// person's time zone as its title. data-absolute keeps the server's text. data-elapsed keeps
// counting ("1 min 12 s") while something is running.
(() => {
  const language = document.documentElement.lang || "en";
  const named = new Intl.RelativeTimeFormat(language, { numeric: "auto" }); // tomorrow, now
  const counted = new Intl.RelativeTimeFormat(language); // in 1 week, which isn't always "next week"
  const UNITS = [
    ["year", 31_557_600],
    ["month", 2_629_800],
    ["week", 604_800],
    ["day", 86_400],
    ["hour", 3_600],
    ["minute", 60],
  ];

  const inZone = (locale, style) => {
    const timeZone = document.body.dataset.timeZone || undefined;
    try {
      return new Intl.DateTimeFormat(locale, { ...style, timeZone });
    } catch {
      return new Intl.DateTimeFormat(locale, style); // a zone this browser doesn't know
    }
  };
  const moment = inZone(language, { dateStyle: "full", timeStyle: "short" });
  const date = inZone("en-US", { year: "numeric", month: "numeric", day: "numeric" });

  // The calendar day there: "tomorrow" is the next day, not 24 hours later.
  const dayOf = (at) => {
    const [month, day, year] = date.format(at).split("/").map(Number);
    return Date.UTC(year, month - 1, day) / 86_400_000;
  };

  const since = (at, seconds) => {
    const [unit, length] = UNITS.find(([, long]) => Math.abs(seconds) >= long) ?? [];
    if (!unit) return named.format(0, "second");
    if (unit === "day") return named.format(dayOf(at) - dayOf(Date.now()), unit);
    // Still "in 2 weeks" after a minute has passed. Minutes and hours count only when complete.
    const number = seconds / length;
    return counted.format(length >= 604_800 ? Math.round(number) : Math.trunc(number), unit);
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
    if (!("absolute" in time.dataset)) write(time, since(at, seconds));
  };

  const tellAll = (root) => root.querySelectorAll("time[datetime]").forEach(tell);

  tellAll(document);
  document.addEventListener("htmx:load", (event) => tellAll(event.detail.elt));
  setInterval(() => tellAll(document), 30_000);
  setInterval(() => document.querySelectorAll("time[data-elapsed]").forEach(tell), 1_000);
})();
