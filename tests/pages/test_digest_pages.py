"""Digests as pages, feeds for readers, and the link that stops emails."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from html import unescape
from typing import Any
from xml.etree import ElementTree

import feedparser
import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from memory.models import Topic, User
from research.models import Channel, Digest, DigestSettings, Feed, TopicNotices
from research.pages import digests as pages_digests
from research.services.notifications import digests, notice_text
from tests.research.factories import make_item, make_topic
from tests.research.notice_cast import body_in_style, email, saved_run
from tests.undo import undone

ATOM = "{http://www.w3.org/2005/Atom}"


@pytest.fixture
def browser(alice: User, client_of: Callable[[Any], Client]) -> Client:
    return client_of(alice)


@pytest.fixture
def topic(alice: User) -> Topic:
    return make_topic(alice)


@pytest.fixture
def feed(alice: User) -> Feed:
    return pages_digests.add(alice, topic=None, include_private=False, by=alice.actor)


def make_digest(owner: User) -> Digest:
    made = DigestSettings(owner=owner, frequency="daily")
    found = digests.make(made, timezone.now())
    assert found is not None
    return found


def read(feed: Feed, **headers: str) -> Any:
    return Client().get(f"/feeds/{feed.token}/", headers=headers)


def text(answer: Any) -> str:
    return str(answer.content.decode())


def test_the_digests_are_a_list_and_each_is_a_page(browser: Client, alice: User, topic: Topic):
    assert "No digests yet" in text(browser.get("/digest/"))
    saved_run(topic, "Version 18.1 is out.")
    old = make_digest(alice)
    saved_run(topic, "Version 18.2 is out.")
    new = make_digest(alice)

    shown = text(browser.get("/digest/"))
    assert shown.index(f"/digest/{new.pk}/") < shown.index(f"/digest/{old.pk}/")
    assert "Version 18.2 is out." in text(browser.get(f"/digest/{new.pk}/"))
    assert "Version 18.1 is out." in text(browser.get(f"/digest/{old.pk}/"))


def test_another_persons_digest_does_not_exist(
    alice: User, bob: User, topic: Topic, client_of: Callable[[Any], Client]
):
    saved_run(topic, "A fact.")
    made = make_digest(alice)

    assert client_of(bob).get(f"/digest/{made.pk}/").status_code == 404
    assert "A fact." not in text(client_of(bob).get("/digest/"))


def test_the_page_takes_as_many_queries_for_many_topics(
    browser: Client, alice: User, django_assert_max_num_queries: Any
):
    for number in range(8):
        saved_run(make_topic(alice, f"Topic {number}"), "A fact.", "Another.")
    made = make_digest(alice)

    with django_assert_max_num_queries(12):
        browser.get(f"/digest/{made.pk}/")
    with django_assert_max_num_queries(8):
        browser.get("/digest/")


# --- feeds ----------------------------------------------------------------------------------------


def test_the_feed_is_valid_atom_and_carries_the_changes(feed: Feed, topic: Topic):
    run = saved_run(topic, "Costs < 5 & “rising”.")

    answer = read(feed)

    assert answer["Content-Type"] == "application/atom+xml; charset=utf-8"
    root = ElementTree.fromstring(answer.content)  # noqa: S314 (our own)
    assert_valid(root)
    parsed = feedparser.parse(answer.content)
    assert not parsed.bozo
    [changed] = [entry for entry in parsed.entries if "1 change" in entry.title]
    assert changed.link.endswith(f"/runs/{run.pk}/")
    assert "Costs &lt; 5 &amp; “rising”." in changed.summary
    assert 'href="https://example.org/1"' in changed.summary


@pytest.mark.parametrize(("status", "unsure"), [("contradicted", False), ("changed", True)])
def test_what_a_source_disputes_is_not_reported_as_gone(
    browser: Client, alice: User, feed: Feed, topic: Topic, status: str, unsure: bool
):
    run = saved_run(topic, "The limit is 90.")
    run.delta_items.update(status=status, needs_review=unsure, previous_text="The limit is 80.")
    made = make_digest(alice)

    for shown in (text(browser.get(f"/digest/{made.pk}/")), unescape(text(read(feed)))):
        words = " ".join(re.sub(r"<[^>]+>", " ", shown).replace(":", "").split())
        assert "Known The limit is 80." in words
        assert "<s " not in shown and "<del>" not in shown


def test_what_gave_way_is_struck_out(browser: Client, alice: User, feed: Feed, topic: Topic):
    run = saved_run(topic, "The limit is 90.")
    run.delta_items.update(status="changed", previous_text="The limit is 80.")
    made = make_digest(alice)

    page = text(browser.get(f"/digest/{made.pk}/"))
    assert "The limit is <del>80</del> <ins>90</ins>." in page
    assert "<del>The limit is 80.</del>" in unescape(text(read(feed)))


def assert_valid(root: Any) -> None:
    """Hold a feed against what RFC 4287 asks for (4.1.1, 4.1.2, 3.3)."""
    assert root.tag == f"{ATOM}feed"
    for element in (root, *root.findall(f"{ATOM}entry")):
        for name in ("id", "title", "updated"):
            [found] = element.findall(f"{ATOM}{name}")
            assert found.text
    assert root.findall(f"{ATOM}author/{ATOM}name")
    links = {link.get("rel"): link.get("href") for link in root.findall(f"{ATOM}link")}
    assert links["self"].startswith("http") and links["alternate"].startswith("http")
    ids = [entry.findtext(f"{ATOM}id") for entry in root.findall(f"{ATOM}entry")]
    assert len(ids) == len(set(ids)) and all(str(key).startswith("urn:uuid:") for key in ids)
    for updated in root.iter(f"{ATOM}updated"):
        assert timezone.datetime.fromisoformat(updated.text).tzinfo  # type: ignore[attr-defined]
    for entry in root.findall(f"{ATOM}entry"):
        assert entry.findall(f"{ATOM}link") and entry.findall(f"{ATOM}summary")


def test_it_says_that_nothing_changed_to_who_has_it(feed: Feed, topic: Topic):
    saved_run(topic, "A fact.")
    first = read(feed)

    assert read(feed, **{"If-None-Match": first["ETag"]}).status_code == 304
    assert read(feed, **{"If-Modified-Since": first["Last-Modified"]}).status_code == 304
    saved_run(topic, "Another fact.")
    assert read(feed, **{"If-None-Match": first["ETag"]}).status_code == 200


def test_private_topics_are_in_it_only_where_their_owner_says_so(alice: User, feed: Feed):
    private = make_topic(alice, "Private", private=True)
    run = saved_run(private, "A private fact.")
    make_item(run, "new", "A withheld one.", hidden_reason="not asked for")
    open_one = pages_digests.add(alice, topic=None, include_private=True, by=alice.actor)

    assert "rivate" not in text(read(feed)).replace("no-private", "")
    assert "A private fact." in text(read(open_one))
    assert "withheld" not in text(read(open_one))


def test_a_feed_of_one_topic_holds_that_alone(browser: Client, alice: User, topic: Topic):
    saved_run(topic, "A fact.")
    saved_run(make_topic(alice, "Other"), "Another fact.")
    browser.post("/settings/feeds/", {"topic": str(topic.pk)})

    feed = Feed.objects.get()
    assert "A fact." in text(read(feed)) and "Another fact." not in text(read(feed))
    assert feed.address in text(browser.get("/settings/channels/"))


def test_a_feed_of_a_private_topic_is_asked_about_first(browser: Client, alice: User):
    private = make_topic(alice, "Private", private=True)

    answer = browser.post("/settings/feeds/", {"topic": str(private.pk)})

    assert "is private. Select" in text(answer)
    assert not Feed.objects.exists()


def test_an_ended_address_opens_nothing_and_can_be_taken_up_again(
    browser: Client, feed: Feed, topic: Topic
):
    saved_run(topic, "A fact.")
    answer = browser.post(f"/settings/feeds/{feed.pk}/end/", follow=True)
    assert read(feed).status_code == 410

    undone(browser, answer)
    assert read(feed).status_code == 200


def test_an_ended_address_is_not_taken_up_again_past_the_number(
    browser: Client, alice: User, feed: Feed, monkeypatch: Any
):
    monkeypatch.setattr(pages_digests, "MAX_FEEDS", 1)
    ended = browser.post(f"/settings/feeds/{feed.pk}/end/", follow=True)
    pages_digests.add(alice, topic=None, include_private=False, by=alice.actor)

    answer = undone(browser, ended)

    assert "Revoke one first" in text(answer)
    assert read(feed).status_code == 410


@pytest.mark.parametrize("wrong", ["x", "x.y", "0f" * 16, "%00", "é.é"])
def test_a_guessed_address_opens_nothing(feed: Feed, wrong: str):
    assert Client().get(f"/feeds/{wrong}/").status_code == 404


def test_a_feed_of_another_person_cannot_be_ended(
    feed: Feed, bob: User, client_of: Callable[[Any], Client]
):
    assert client_of(bob).post(f"/settings/feeds/{feed.pk}/end/").status_code == 404
    assert read(feed).status_code == 200


def test_a_disabled_account_and_a_trashed_topic_close_it(alice: User, topic: Topic, feed: Feed):
    own = pages_digests.add(alice, topic=topic, include_private=False, by=alice.actor)
    topic.trash(by=alice.actor)
    assert read(own).status_code == 410

    User.objects.filter(pk=alice.pk).update(is_active=False)
    assert read(feed).status_code == 410


def test_a_read_feed_is_told_of_and_no_search_engine_learns_it(feed: Feed):
    answer = read(feed)

    feed.refresh_from_db()
    assert feed.opened_at is not None and feed.opened_at > timezone.now() - timedelta(minutes=1)
    assert "noindex" in answer["X-Robots-Tag"]
    assert answer["Referrer-Policy"] == "no-referrer"


# --- stopping emails -----------------------------------------------------------------------------


def address_in_mail(channel: Channel, topic: Topic) -> str:
    [row] = body_in_style(saved_run(topic, "A fact."))
    return notice_text.compose(row).unsubscribe.partition("/unsubscribe/")[2]


def test_the_link_in_an_email_asks_first_and_an_email_program_ends_it_at_once(
    alice: User, topic: Topic
):
    token = address_in_mail(email(alice), topic)
    visitor = Client(enforce_csrf_checks=True)

    assert "Unsubscribe from “" in text(visitor.get(f"/unsubscribe/{token}"))
    assert not TopicNotices.objects.exists()
    answer = visitor.post(f"/unsubscribe/{token}", {"List-Unsubscribe": "One-Click"})

    assert answer.status_code == 200 and "won’t get any more emails about" in text(answer)
    assert TopicNotices.objects.get().left_out.count() == 1


def test_the_link_in_a_digest_ends_digests_alone(alice: User, topic: Topic):
    made = email(alice)
    saved_run(topic, "A fact.")
    make_digest(alice)
    url = notice_text.compose(made.deliveries.select_related("channel", "digest", "run").get())
    Client().post("/unsubscribe/" + url.unsubscribe.partition("/unsubscribe/")[2])

    made.refresh_from_db()
    assert (made.digest, made.reports, made.enabled) == (False, "each", True)


@pytest.mark.parametrize("wrong", ["x", "a:b.c", "%00", "00000000-0000-4000-8000-000000000000:x"])
def test_a_guessed_link_ends_nothing(db: None, wrong: str):
    answer = Client().post(f"/unsubscribe/{wrong}/")

    assert answer.status_code == 404 and "This link doesn’t work" in text(answer)


def test_digests_are_a_tab_of_topics(client_of: Any, alice: User):
    html = client_of(alice).get(reverse("research:digests")).content.decode()

    current = re.findall(r'<a[^>]*href="([^"]+)"[^>]*aria-current="page"', html)
    rail, tab, bar = current
    assert rail == bar == reverse("research:topics") and tab == reverse("research:digests")


def test_a_mailed_sentence_has_a_direction_of_its_own(alice: User, topic: Topic) -> None:
    made = email(alice)
    saved_run(topic, "بلغ الحد 90.")
    make_digest(alice)

    row = made.deliveries.select_related("channel", "digest", "run").get()

    assert "<bdi>بلغ الحد 90.</bdi>" in notice_text.compose(row).html  # its label is English


def test_disputed_changes_come_first_and_the_newest_report_leads(
    browser: Client, alice: User, topic: Topic
) -> None:
    saved_run(topic, "The limit is 90.", summary="The newest.", is_extractive=False)
    run = saved_run(topic, "A fee is due.", summary="The last.", is_extractive=False)
    make_item(run, "contradicted", "It is on.", previous_text="It is off everywhere in the world.")
    made = make_digest(alice)

    shown = text(browser.get(f"/digest/{made.pk}/"))

    assert shown.index("It is on.") < shown.index("The limit is 90.")
    assert "The last." in shown and "The newest." not in shown
