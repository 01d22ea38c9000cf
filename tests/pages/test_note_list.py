"""The list of notes: what it shows, finds, sorts and edits in a row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from memory.models import Note
from memory.services.search import filters
from tests.pages.record_cast import HTMX, days, note, text_of
from tests.research.factories import make_run, make_topic

URL = "/notes/"
ClientOf = Callable[[Any], Client]


@pytest.fixture
def browser(client_of: ClientOf, alice: Any) -> Client:
    Note.objects.for_user(alice).delete()  # those that every account begins with
    return client_of(alice)


def test_it_shows_a_notes_words_kind_source_and_expiry(browser: Client, alice: Any):
    note(alice, kind="rule", tags=["travel"], source="run:9", stability="volatile",
         ttl_days=7, expires_at=days(2))  # fmt: skip

    page = text_of(browser.get(URL))

    for words in ("Fares are stale.", "rule", "travel", "run:9", "volatile", "1 note<"):
        assert words in page
    assert f'datetime="{days(2):%Y-%m-%d}' in page


def test_a_notes_source_is_its_run_by_the_runs_number_and_not_its_id(browser: Client, alice: Any):
    run = make_run(make_topic(alice, title="Fares"))
    note(alice, source=f"run:{run.pk}")

    assert f"Run #{run.number} of “Fares”" in text_of(browser.get(URL))


def test_over_htmx_the_list_alone_is_answered(browser: Client, alice: Any):
    note(alice)

    page = text_of(browser.get(URL, headers=HTMX))

    assert page.startswith('<section id="records"')
    assert "<html" not in page


@pytest.mark.requirement("R232")
def test_a_stranger_sees_none_of_it(client_of: ClientOf, alice: Any, bob: Any):
    made = note(alice)

    assert "Fares" not in text_of(client_of(bob).get(URL))
    assert client_of(bob).get(f"/records/note/{made.pk}/inline/").status_code == 404
    assert Client().get(URL)["Location"].startswith("/sign-in/")


@pytest.mark.parametrize(
    "query",
    ["q=%00", "q=kind:poem", "q=" + "x" * 5000, 'q="open', "sort=x&cursor=y", "q=-", "q=is:the",
     "q=the+of", "q=a&cursor=-3", "q=a&cursor=99999999", "cursor=WyJ4IiwgIngiXQ", "q=after:soon"],
)  # fmt: skip
def test_an_address_that_makes_no_sense_shows_a_list_all_the_same(browser: Client, query: str):
    assert browser.get(f"{URL}?{query}").status_code == 200


def test_a_question_of_five_thousand_characters_is_answered_by_no_heavy_page(browser: Client):
    answer = browser.get(URL, {"q": "电池价格" * 1_250})

    assert answer.status_code == 200
    assert len(answer.content) < 500_000  # each link that edits a query holds it whole


def test_what_was_not_understood_is_explained(browser: Client, alice: Any):
    page = text_of(browser.get(f"{URL}?q=kind:poem after:soon"))

    assert "“poem” isn’t a valid value for" in page
    assert "“after:soon” isn’t a date" in page


def test_its_number_of_queries_is_fixed(
    browser: Client, alice: Any, django_assert_max_num_queries: Any
):
    for number in range(60):
        note(alice, f"Note {number}", tags=["a", "b"], source=f"run:{number}")
    browser.get(URL)

    with django_assert_max_num_queries(13) as queries:
        browser.get(URL)
    with django_assert_max_num_queries(13):
        browser.get(f"{URL}?q=note+tag:a")
    Note.objects.filter(content__endswith="1").delete()
    with django_assert_max_num_queries(len(queries)):
        browser.get(URL)


# --- what is left out unless it is asked for ------------------------------------------------------


@pytest.mark.requirement("R200")
def test_superseded_expired_and_trashed_notes_are_found_by_is(browser: Client, alice: Any):
    new = note(alice, "It costs 80.")
    note(alice, "It cost 89.", superseded_by=new)
    note(alice, "It was cheap.", stability="volatile", ttl_days=1, expires_at=days(-1))
    note(alice, "Nonsense.").trash(by=alice.actor)

    page = text_of(browser.get(URL))
    assert "It costs 80." in page
    for words in ("It cost 89.", "It was cheap.", "Nonsense."):
        assert words not in page
    assert "It cost 89." in text_of(browser.get(f"{URL}?q=is:superseded"))
    assert "It was cheap." in text_of(browser.get(f"{URL}?q=is:expired"))
    assert "Nonsense." in text_of(browser.get(f"{URL}?q=is:trashed nonsense"))


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("kind:rule", "Rule"), ("trust:external", "Web"), ("source:run:*", "Web"),
        ("tag:travel", "Rule"), ("is:pinned", "Pinned"), ("is:locked", "Locked"),
        ("is:expiring", "Soon"), ("stability:permanent", "Locked"), ("locked", "Locked"),
    ],
)  # fmt: skip
def test_operators_narrow_the_list(browser: Client, alice: Any, query: str, found: str):
    note(alice, "Rule one", kind="rule", tags=["travel"])
    note(alice, "Web page", trust="external", source="run:3")
    note(alice, "Pinned thing", pinned=True)
    note(alice, "Locked thing", lock="read-only", stability="permanent")
    note(alice, "Soon over", stability="volatile", ttl_days=1, expires_at=days(1))

    page = text_of(browser.get(URL, {"q": query})).split("<tbody")[1]

    assert found in page.replace("<mark>", "").replace("</mark>", "")
    assert page.count('<tr id="record-') == 1


def test_filters_edit_the_query_and_keep_the_rest(browser: Client, alice: Any):
    note(alice, kind="rule")

    page = text_of(browser.get(URL, {"q": "stale kind:rule -tag:x", "sort": "oldest"}))
    ticked = text_of(
        browser.get(URL, {"q": "stale", "ops": "-tag:x", "kind": ["rule", "log"], "sort": "oldest"})
    )

    assert 'href="/notes/?q=-tag%3Ax+stale&amp;sort=oldest"' in page  # without kind:rule
    assert "kind: <b><bdi>rule, log</bdi></b>" in ticked
    assert 'name="ops" value="-tag:x"' in ticked and 'value="stale"' in ticked


# --- order, pages, marks --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sort", "first"), [("newest", "c"), ("oldest", "a"), ("changed", "b"), ("expires", "d")]
)
def test_the_list_is_sorted_as_asked(browser: Client, alice: Any, sort: str, first: str):
    note(alice, "Letter a", created=days(-3), updated=days(-3))
    note(alice, "Letter b", created=days(-2), updated=days(0))
    note(alice, "Letter c", created=days(-1), updated=days(-1))
    note(alice, "Letter d", created=days(-2.5), updated=days(-2), expires_at=days(2))

    page = text_of(browser.get(f"{URL}?sort={sort}")).split("<tbody")[1]

    assert page.index(f"Letter {first}") == page.index("Letter ")


@pytest.mark.parametrize("many", [0, filters.MANY_ENTRIES])
@pytest.mark.parametrize("few", [0, filters.FEW_IDS])
def test_a_large_store_is_searched_as_a_small_one_is(
    browser: Client, alice: Any, bob: Any, monkeypatch: pytest.MonkeyPatch, many: int, few: int
):
    monkeypatch.setattr(filters, "MANY_ENTRIES", many)
    monkeypatch.setattr(filters, "FEW_IDS", few)
    for owner, content in ((alice, "A cell."), (alice, "A pack."), (bob, "Another cell.")):
        note(owner, content=content)

    rows = browser.get("/notes/", {"q": "cell"}).context["rows"]

    assert [row.record.content for row in rows] == ["A cell."]


def test_with_words_the_best_match_comes_first_and_is_marked(browser: Client, alice: Any):
    note(
        alice, "Cells and packs, and much besides that has nothing to do with the price of a thing."
    )
    note(alice, "Price of cells.", created=days(-9))

    page = text_of(browser.get(f"{URL}?q=price+cells")).split("<tbody")[1]

    assert "<mark>Price</mark> of <mark>cells</mark>." in page
    assert page.index("<mark>Price</mark> of") < page.index("and much besides")


def test_pages_follow_each_other_without_a_gap(browser: Client, alice: Any):
    for number in range(60):
        note(alice, f"Note <{number}>")
    first = browser.get(URL)

    second = browser.get(f"{URL}?cursor={first.context['next_cursor']}")

    seen = [row.record.pk for page in (first, second) for row in page.context["rows"]]
    assert len(seen) == len(set(seen)) == 60
    assert second.context["next_cursor"] is None


def test_of_a_long_text_a_row_shows_one_line(browser: Client, alice: Any):
    note(alice, "word " * 200 + "the end")

    page = text_of(browser.get(URL))

    assert "word word" in page
    assert "the end" not in page


def test_without_notes_the_page_names_the_next_step(browser: Client):
    page = text_of(browser.get(URL))

    assert "No notes yet" in page
    assert "No matching notes" in text_of(browser.get(f"{URL}?q=nothing"))


# --- edited in the row ----------------------------------------------------------------------------


@pytest.mark.requirement("R210")
def test_a_note_is_edited_in_its_row_and_keeps_everything_else(browser: Client, alice: Any):
    made = note(alice, sensitivity="sensitive", confidence=0.5, evidence=["seen"], scope="run:1")
    address = f"/records/note/{made.pk}/inline/"
    assert 'name="content"' in text_of(browser.get(address, headers=HTMX))

    typed = {"content": "Fares are fresh.", "tags": "a, b", "version": 1}
    page = text_of(browser.post(address, typed, headers=HTMX))

    made.refresh_from_db()
    assert page.startswith(f'<tr id="record-{made.pk}"')
    assert "Fares are fresh." in page
    assert (made.content, made.tags, made.version) == ("Fares are fresh.", ["a", "b"], 2)
    kept = (made.sensitivity, made.confidence, made.evidence, made.scope)
    assert kept == ("sensitive", 0.5, ["seen"], "run:1")


def test_a_conflict_is_reported_and_keeps_what_was_typed(browser: Client, alice: Any):
    made = note(alice)
    made.change(by=alice.actor, content="Theirs.")

    typed = {"content": "Mine.", "tags": "", "version": 1}
    page = text_of(browser.post(f"/records/note/{made.pk}/inline/", typed, headers=HTMX))

    made.refresh_from_db()
    assert made.content == "Theirs."
    for words in (
        "This record changed after you opened it",
        "Theirs.",
        ">Mine.</textarea>",
        'value="2"',
    ):
        assert words in page.replace("> ", ">")


@pytest.mark.parametrize("content", ["", "x" * 70_000])
def test_a_text_that_cannot_be_is_explained_in_the_row(browser: Client, alice: Any, content: str):
    made = note(alice)

    answer = browser.post(
        f"/records/note/{made.pk}/inline/", {"content": content, "version": 1}, headers=HTMX
    )

    assert answer.status_code == 200
    assert "errorlist" in text_of(answer)
    made.refresh_from_db()
    assert made.version == 1
