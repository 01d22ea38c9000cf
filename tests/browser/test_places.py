"""Every page is checked, or listed here with the reason why not."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable

import pytest
from django.urls import Resolver404, resolve

from tests.browser.places import places
from tests.browser.visitor import Visitor
from tests.pages.test_urls import ALL

pytestmark = [
    pytest.mark.browser,
    pytest.mark.timeout(300),
]
# Pages that an act of a place leads to, that are drawn by the templates of others, or that another
# test of this folder opens.
ELSEWHERE = {
    "memory:first-account",
    "memory:agent",
    "memory:person-delete",
    "memory:content-snapshot-take",
    "memory:content-snapshot-upload",
    "memory:observation-history",
    "research:sentence-correct",
    "memory:sign-in-code", "memory:kept-form", "memory:recovery-codes", "memory:method-remove",
    "memory:single-sign-on-done", "memory:single-sign-on-link", "memory:single-sign-on-unlink",
}  # fmt: skip
# What is no page: fragments, files, addresses that lead on, health.
NO_PAGE = {
    "livez", "readyz", "memory:manifest",
    "memory:oauth-server", "memory:oauth-resource", "memory:oauth-resource-mcp",
    "memory:welcome", "memory:settings", "memory:archive-import", "memory:record-open",
    "memory:spending-csv", "memory:archive-file", "memory:content-snapshot-json",
    "memory:content-raw", "memory:recall-file", "memory:context-text", "memory:file-source",
    "memory:record-inline", "memory:memory-panel", "memory:bulk-progress", "memory:session-saved", "memory:message",
    "research:topics-trash", "research:topic-duplicate", "research:topic-known",
    "research:schedule-preview", "research:fact", "research:fact-strike", "research:run-progress",
    "research:sources-export", "research:topic-memory-json", "research:run-export",
    "research:activity-file", "research:feed", "research:metrics", "research:chat-models",
    *(name for name, _address in ALL if name.endswith("-moved")),  # they only redirect
}  # fmt: skip


def names_of(paths: Iterable[str]) -> set[str]:
    """Return the names of the routes that these addresses have."""
    found = set()
    for path in paths:
        with contextlib.suppress(Resolver404):  # a place shows what an unknown address answers
            found.add(resolve(path.partition("?")[0]).view_name)
    return found


def test_no_page_goes_unlooked_at(visit: Callable[..., Visitor], cast: dict[str, str]) -> None:
    visitor = visit()
    visitor.sign_in("grace")
    seen = names_of(place.path for place in places(cast))
    rest = {name: path for name, path in ALL if name not in seen | ELSEWHERE | NO_PAGE}

    posted = 405  # an address that only takes forms
    ask = visitor.page.request
    unseen = [name for name, path in rest.items() if ask.get(path).status != posted]
    assert not unseen
