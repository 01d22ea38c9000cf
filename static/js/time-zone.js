// Offers this browser's time zone where nothing but the default stands in the field.
document.querySelectorAll("[data-guess-time-zone]").forEach((field) => {
  const { timeZone } = Intl.DateTimeFormat().resolvedOptions();
  if (timeZone && field.value === "UTC" && field.defaultValue === "UTC") field.value = timeZone;
});
