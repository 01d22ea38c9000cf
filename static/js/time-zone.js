// Offers this browser's time zone if the field has only the default.
document.querySelectorAll("[data-guess-time-zone]").forEach((field) => {
  const { timeZone } = Intl.DateTimeFormat().resolvedOptions();
  if (timeZone && field.value === "UTC" && field.defaultValue === "UTC") field.value = timeZone;
});
