"""The slug of a topic."""

from __future__ import annotations

import re

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from beacon_site.text.cleaning import SLUG_LENGTH, normal_title, slug_of


@pytest.mark.requirement("R4")
@pytest.mark.parametrize(
    ("title", "slug"),
    [("AI agents", "ai-agents"), ("C", "c"), ("Vitamin D3 studies", "vitamin-d3-studies")],
)
def test_plain_titles_follow_the_seeds_rule(title: str, slug: str):
    assert slug_of(title) == slug


@pytest.mark.requirement("R5")
@pytest.mark.parametrize(
    ("title", "shape"),
    [
        ("C++", r"c-[0-9a-f]{8}"),
        ("Solid-state batteries", r"solidstate-batteries-[0-9a-f]{8}"),
        ("人工智能", r"topic-[0-9a-f]{8}"),
        ("!!!", r"topic-[0-9a-f]{8}"),
        ("a" * 200, r"a{71}-[0-9a-f]{8}"),
    ],
)
def test_what_was_dropped_or_cut_leaves_a_mark(title: str, shape: str):
    assert re.fullmatch(shape, slug_of(title))


@pytest.mark.requirement("R5")
def test_topics_that_slug_alike_are_distinguished():
    titles = ["C", "C++", "C#", "人工智能", "人工智慧", "!!!", "???", "-c", "a" * 90, "a" * 91]
    assert len({slug_of(title) for title in titles}) == len(titles)


@pytest.mark.requirement("R3", "R5")
@given(st.text(max_size=120))
def test_outer_and_double_spaces_do_not_count(title: str):
    assert slug_of(f"  {title}  ".replace(" ", "  ")) == slug_of(title)


@pytest.mark.requirement("R4")
@given(st.text(max_size=300))
def test_a_slug_is_short_and_plain(title: str):
    slug = slug_of(title)
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", slug)
    assert len(slug) <= SLUG_LENGTH


@pytest.mark.requirement("R5")
@given(st.text(max_size=60), st.text(max_size=60))
def test_different_titles_have_different_slugs(left: str, right: str):
    assume(normal_title(left) != normal_title(right))
    assert slug_of(left) != slug_of(right)


@pytest.mark.requirement("R3")
@given(st.text(max_size=60))
def test_upper_case_reaches_the_same_topic(title: str):
    assert slug_of(normal_title(title)) == slug_of(title)


@pytest.mark.requirement("R4")
def test_a_title_of_80_characters_is_not_cut():
    assert slug_of("a" * 80) == "a" * 80
    assert len(slug_of("a" * 81)) == 80
