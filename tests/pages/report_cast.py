"""The page of a saved run, as its tests read it."""

from __future__ import annotations

import re

from django.test import Client
from django.urls import reverse

from research.models import Run


def url(name: str, run: Run) -> str:
    return reverse(f"research:{name}", args=[run.topic.slug, run.pk])


def page(browser: Client, run: Run) -> str:
    answer = browser.get(url("run", run))
    assert answer.status_code == 200
    return answer.content.decode()


def section(shown: str, key: str) -> str:
    found = re.search(rf'<section[^>]* id="{key}".*?</section>', shown, re.S)
    assert found is not None
    return found[0]
