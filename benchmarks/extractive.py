"""The findings of the engine without a model, and their time: `python -m benchmarks.extractive`.

Prints the findings of the sample's batches and of the Chinese test articles, for a person to read.
Then it prints the time of `find` over 24 pages of 10 kB and of `near_duplicates` over 40 of 20 kB.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from research.claims.duplicates import near_duplicates
from research.claims.selection import Finding, PageText, find

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "beacon_site.settings")
from beacon_site.providers.search.sample import (
    SAMPLE_SETTINGS,
    SAMPLE_TITLE,
    articles,
    read_article,
)

CHINESE = Path(__file__).resolve().parents[1] / "tests" / "data" / "chinese"


def sample(batch: int) -> list[PageText]:
    """Return the sample's articles of one batch as pages read, without wire copies."""
    return [
        PageText(n, a.url, a.title, "sample", a.text, a.snippet, a.published_at)
        for n, a in enumerate(articles(), start=1)
        if a.batch == batch and not a.copy_of
    ]


def chinese(batch: int) -> list[PageText]:
    """Return the Chinese test articles of one batch."""
    pages = [read_article(path, batch) for path in sorted((CHINESE / f"batch{batch}").glob("*.md"))]
    return [
        PageText(n, a.url, a.title, "chinese", a.text, a.snippet, a.published_at)
        for n, a in enumerate(pages, start=1)
    ]


def long_pages(count: int, characters: int) -> list[PageText]:
    """Return pages of a given length, each from other sentences of the sample."""
    base = [page for batch in (1, 2, 3) for page in sample(batch)]
    pages = []
    for n in range(count):
        texts = [base[(n * 7 + k * 5) % len(base)].text for k in range(len(base))]
        # Each page has its own words, so that nothing is answered from a cache.
        text = "\n\n".join(f"Page {n} part {k} of {n}. {text}" for k, text in enumerate(texts))
        pages.append(replace(base[n % len(base)], number=n + 1, text=text[:characters]))
    return pages


def show(findings: list[Finding]) -> None:
    """Print findings with score and page."""
    for finding in findings:
        print(f"  {finding.score:.2f} [{finding.reading}] {finding.sentence}")


def timed(work: Callable[[], object]) -> float:
    """Return the seconds of processor time that a piece of work takes."""
    start = time.process_time()
    work()
    return time.process_time() - start


def main() -> None:
    """Print findings and times."""
    for batch in (1, 2, 3):
        print(f"sample, batch {batch}")
        show(find(sample(batch), topic=SAMPLE_TITLE, focus=SAMPLE_SETTINGS["focus"]))
    for batch in (1, 2):
        print(f"chinese, batch {batch}")
        show(find(chinese(batch), topic="固态电池"))
    pages = long_pages(24, 10_000)
    print(f"find, 24 pages of 10 kB: {timed(lambda: find(pages, topic=SAMPLE_TITLE)):.2f} s")
    many = long_pages(40, 20_000)
    print(f"near_duplicates, 40 pages of 20 kB: {timed(lambda: near_duplicates(many)):.2f} s")


if __name__ == "__main__":
    main()
