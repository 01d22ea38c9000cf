"""The reference of Prometheus metrics."""

from __future__ import annotations

from beacon_site.request_log import REQUESTS, SECONDS
from research.pages.metrics import FIGURES
from research.reference import markdown


def written() -> str:
    """Return the page."""
    rows = [
        (
            "`beacon_http_requests` (`_total`)",
            _labels(REQUESTS._labelnames),
            REQUESTS._documentation,
        ),
        ("`beacon_http_request_seconds`", _labels(SECONDS._labelnames), SECONDS._documentation),
    ]
    rows += [(f"`beacon_{name}`", _labels(one.labels), one.told) for name, one in FIGURES.items()]
    return markdown.page(
        "Metrics",
        "`/metrics` of the web server returns these in Prometheus' text format: [who can "
        "read them, how to scrape them, four alarms](../hosting.md#metrics).",
        markdown.table(("figure", "labels", "tells"), rows),
    )


def _labels(names: tuple[str, ...]) -> str:
    return ", ".join(f"`{name}`" for name in names)
