"""No page contains text that bypasses gettext: in a pseudo-language, all text is marked.

The pseudo-language puts ⟦ and ⟧ around all translated text.  People's text is Greek
here, so Latin letters outside the marks are untranslated text, or names (NAMES).
"""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Callable, Iterator
from typing import Any

import lxml.html
import pytest
from django.test import Client
from django.utils import translation

from memory.models import MemoryFile, Note, Topic, User
from tests.pages.test_urls import PUBLIC, routes
from tests.research.factories import make_topic
from tests.test_architecture import APPS

pytestmark = pytest.mark.timeout(600)  # every page of the frame: on a crowded machine that takes

MARKED = re.compile(r"⟦[^⟦⟧]*⟧")
ADDRESS = re.compile(r"https?://\S+")
LATIN = re.compile(r"[A-Za-z]{2,}")
SHOWN = ("aria-label", "title", "placeholder", "alt", "data-hotkey-label")
# Code, keys and names are what they are in every language; an option's or a time zone's name too.
NOT_WORDS = (
    "//*[self::script or self::style or self::template or self::code or self::pre or self::kbd"
    " or self::bdi or contains(concat(' ', @class, ' '), ' mono ')"
    " or @translate='no' or (self::select and contains(@name, 'language'))]"
)
NAMES = frozenset(
    LATIN.findall(
        "Beacon Wikipedia arXiv Hacker News GDELT Tavily Brave SerpAPI SearXNG Google Bing Scholar"
        " Jobs Feeds OpenAI Azure Ollama vLLM LM Studio llama.cpp server Redis UTC Claude Code"
        " Cursor VS Codex ChatGPT claude research facts memory user md text-embedding-3-small"
    )
)
# Where a record is from, as programs call it; and Activity, which names each record it tells of.
AS_CALLED = "not(contains(@class, 'record-source') or ancestor::ol[contains(@class, 'stream')])"


def _pseudo(real: Callable[..., str]) -> Callable[..., str]:
    return lambda *args: f"⟦{real(*args)}⟧"


@pytest.fixture
def pseudo(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Mark all translated text, including cached text."""
    for name in ("gettext", "ngettext", "pgettext", "npgettext"):
        real = getattr(translation._trans, name)
        monkeypatch.setattr(translation._trans, name, _pseudo(real))
    _forget_kept_words()
    yield
    _forget_kept_words()  # no test after this one is to meet a marked word


def _forget_kept_words() -> None:
    ours = [module for name, module in sys.modules.items() if name.split(".")[0] in APPS]
    for one in [value for module in ours for value in vars(module).values()]:
        # By `type`: asked for its class, a lazy object among them would be made.
        if type(one) is functools._lru_cache_wrapper:
            one.cache_clear()


def _bare(text: str) -> str:
    """Return the parts of a text outside all marks."""
    while MARKED.search(text):
        text = MARKED.sub(" ", text)
    return text


def forgotten(html: str) -> Iterator[str]:
    """Yield the untranslatable texts of a page."""
    page = lxml.html.document_fromstring(html)
    for part in page.xpath(NOT_WORDS):
        part.drop_tree()
    texts = _bare(" ".join(page.itertext())).splitlines()
    texts += [
        _bare(part.get(name)) for name in SHOWN for part in page.xpath(f"//*[@{name}][{AS_CALLED}]")
    ]
    for text in texts:
        if set(LATIN.findall(ADDRESS.sub(" ", text))) - NAMES:
            yield " ".join(text.split())


def test_what_is_not_translated_is_noticed(pseudo: None) -> None:
    said = translation.gettext("Said in every language")
    page = f"<p title='a hint'>{said} and <b>left</b> out, Δοκιμή</p><code>is code</code>"
    assert list(forgotten(page)) == ["and left out, Δοκιμή", "a hint"]


@pytest.mark.slow
def test_no_page_holds_words_that_were_never_given_to_translators(
    pseudo: None, alice: User, client_of: Callable[[Any], Client]
) -> None:
    User.objects.filter(pk=alice.pk).update(is_staff=True, username="αλίκη")
    topic: Topic = make_topic(alice, title="Δοκιμή")
    # What a new account is given as its first words is its own from then on.
    Note.objects.for_user(alice).update(content="Ψυχή")
    MemoryFile.objects.for_user(alice).update(content="# Αρχείο", summary="Αρχείο")
    browser = client_of(User.objects.get(pk=alice.pk))
    found = {}
    for name, address, entry in routes():
        if name in PUBLIC or set(entry.pattern.converters) - {"slug"}:
            continue
        if entry.pattern.converters:
            address = address.replace("/x/", f"/{topic.slug}/")
        answer = browser.get(address, follow=True)
        is_page = answer.status_code == 200 and "html" in answer["Content-Type"]
        texts = set(forgotten(answer.content.decode())) if is_page else ()
        if texts:
            found[address] = texts
    assert found == {}
