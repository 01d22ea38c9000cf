// Suggests this browser's time zone if the field only has the default.
document.querySelectorAll("[data-guess-time-zone]").forEach((field) => {
  const { timeZone } = Intl.DateTimeFormat().resolvedOptions();
  if (timeZone && field.value === "UTC" && field.defaultValue === "UTC") field.value = timeZone;
});
