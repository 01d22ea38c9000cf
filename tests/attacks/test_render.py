"""Each payload through the Markdown renderer, with and without the renderer's defenses."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.utils.html import escape

from beacon_site.text import markdown
from beacon_site.text.markdown import as_words, link, link_citations, render
from memory.services.search.snippets import marked, passage
from tests.attacks.looking import harm
from tests.attacks.payloads import markup, naughty

WAYS: dict[str, Callable[[str], str]] = {
    "Markdown by itself": render,
    "Markdown with citations": lambda text: link_citations(render(text), [1, 2]),
    "Markdown inside a list, a table, a quote": lambda text: render(
        f"- {text}\n- x\n\n|a|b|\n|-|-|\n|{as_words(text)}|x|\n\n> {text}\n"
    ),
    "Markdown as a link's words and address": lambda text: render(link(text, text)),
    "Markdown in a heading and a fence": lambda text: render(f"# {text}\n\n```{text}\nx\n```\n"),
    "search: hits and snippets": lambda text: str(marked(passage(text, "alert x"), "alert x img")),
}


@pytest.mark.parametrize("way", WAYS)
def test_no_payload_is_alive_behind_the_renderer(way: str, count: Callable[..., None]) -> None:
    alive = {one.name: found for one in markup() if (found := _harm(WAYS[way](one.text)))}
    naughty_ones = [text for text in naughty() if _harm(WAYS[way](text))]
    count(way, len(markup()) + len(naughty()), run=len(alive) + len(naughty_ones))

    assert (alive, naughty_ones) == ({}, [])


def test_with_the_walls_down_most_payloads_are_seen_to_be_alive(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    alive = [one.name for one in markup() if _harm(one.text)]
    assert len(alive) > len(markup()) // 2

    parser = markdown._parser.__wrapped__()
    parser.options["html"] = True
    parser.validateLink = lambda _address: True
    monkeypatch.setattr(markdown, "_parser", lambda: parser)
    monkeypatch.setattr(markdown, "_clean", lambda html: html)
    alive = [one.name for one in markup() if _harm(render(one.text))]
    assert len(alive) > len(markup()) // 2


def test_words_that_are_escaped_are_not_alive() -> None:
    assert [one.name for one in markup() if _harm(escape(one.text))] == []


def _harm(html: str) -> list[str]:
    return harm(f"<p>{html}</p>" if "<" not in html else html, "text/html")
