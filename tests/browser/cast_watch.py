"""A topic for the trust pages: an intent that filters, a limit, a recheck, a correction."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from django.urls import reverse
from django.utils import timezone

from memory.models import Topic, TopicFact
from memory.models.actors import RESEARCH
from research.models import Channel, DeltaItem, Report, Run, TopicSettings
from research.services.facts import correcting
from research.services.notifications import notice_text
from research.services.runs import trash as run_trash
from research.services.runs.reporting import delta
from research.services.runs.reporting import sentences as report_sentences
from research.services.schedules import scheduling
from research.services.sources import figures as source_rules
from research.services.topics.settings import editing as topic_editing
from tests.research import factories

PRICE = "A pump with eight kilowatts costs 9,400 euros without the work."
DEARER = "A pump with eight kilowatts costs 9,950 euros without the work."
STANDS = {
    "link": "https://prices.example/2026/10", "title": "Prices in October",
    "domain": "prices.example", "published_at": "2026-10-02", "quote": "9,400 euros for the device",
}  # fmt: skip
SOURCE = {
    "url": "https://prices.example/2026/10", "source_title": "Prices in October",
    "quote": "9,400 euros for the device",
}  # fmt: skip
UNASKED = (
    ("The maker of Görlitz has a new chief.", "rule", "doesn’t match your filter"),
    ("A trade fair in Nuremberg shows quiet pumps.", "model", "A fair is neither price nor maker."),
    ("Ten tricks for your heating.", "muted", "“tricks.example” is muted here"),
)


def watched(owner: Any) -> dict[str, str]:
    """Make the topic with all of its runs; return the addresses."""
    topic = factories.make_topic(owner, "Heat pumps: prices and makers")
    _ask_for_little(topic, owner)
    _baseline(topic)
    told = _told(topic)
    _corrected(told, owner)
    braked, recheck = _braked(topic), _recheck(topic)
    gone = factories.make_run(topic)
    run_trash.trash_run(factories.make_report(gone), by=owner.actor, why="The wrong feed was read.")
    return {
        "watch": topic.slug,
        "watch told": _address(told),
        "watch braked": _address(braked),
        "watch recheck": _address(recheck),
        "watch removed": _address(gone),
        "unsubscribe": _unsubscribe(owner),
    }


def _address(run: Run) -> str:
    return reverse("research:run", args=[run.topic.slug, run.pk])


def _ask_for_little(topic: Topic, owner: Any) -> None:
    """Give the topic an intent, limits, rules for sources, and the hour of another topic."""
    topic_editing.edit_topic(
        topic, by=owner.actor,
        wanted={
            "intent": "only if prices change or a new maker comes up",
            "notify_examples": ["The grant ends in December."], "month_money": "2.00", "month_tokens": 300_000,
            "stale_days": 30,
        },
    )  # fmt: skip
    # As a person leaves it, without asking the network where that page is.
    TopicSettings.objects.filter(topic=topic).update(read_next=["https://prices.example/2026/11"])
    for place, act in (
        ("prices.example", "boost"),
        ("tricks.example", "mute"),
        ("ads.example", "block"),
    ):
        source_rules.set_rule(topic, place, act, by=owner.actor)
    source_rules.set_rule(topic, "daily.example", "mute", scope="all", by=owner.actor)
    at_seven = scheduling.schedule_fields(preset="daily", time_zone="Europe/Berlin")
    for title in ("Insulation of old roofs", "Tariffs for heat pumps"):
        factories.make_topic(owner, title, schedule=at_seven)


def _baseline(topic: Topic) -> None:
    first = factories.make_run(topic, prompt_tokens=41_000, completion_tokens=2_100)
    factories.make_report(
        first, **factories.written(PRICE, "The grant pays 30 percent of the cost of a heat pump.")
    )
    for text in (PRICE, "Four makers share half of the market.", "The grant pays 30 percent."):
        factories.make_fact(topic, text, first, **SOURCE)
    long_ago = _put_back(first, days=71)
    TopicFact.objects.filter(topic=topic).update(created=long_ago, confirmed_at=long_ago)


def _put_back(run: Run, *, days: int) -> datetime:
    """Let a run have taken place that many days ago."""
    at = timezone.now() - timedelta(days=days)
    began = at - timedelta(seconds=41)
    Run.objects.filter(pk=run.pk).update(finished_at=at, started_at=began, created=began)
    since = delta.since_line(None, run.number - 1) if run.number > 1 else ""
    Report.objects.filter(run=run).update(created=at, delta_since=since)
    return at


def _told(topic: Topic) -> Run:
    """Create a report that lists one change of many: the old sentence is beside the new one."""
    run = factories.make_run(topic, new_count=5)
    factories.make_report(run, summary=f"{DEARER} [1]", sources=[
        factories.make_source(1, "Prices in November", domain="prices.example", repeated_by=[
            {"n": None, "domain": "copy.example", "link": "https://copy.example"},
        ]),
        factories.make_source(2, "Makers"),
    ])  # fmt: skip
    price = TopicFact.objects.get(topic=topic, text=PRICE)
    factories.make_fact(topic, DEARER, run, chain=price.chain, **SOURCE)
    why = f"replaced in Run #{run.number} by “{DEARER}”"
    price.retire(by=RESEARCH, why=why, run=run.number, source=run.source)
    factories.make_item(
        run, DeltaItem.Status.CHANGED, DEARER, previous_fact=price, previous_text=PRICE,
        previous_source=STANDS, quote="now 9,950 euros for the device", citations=[1],
    )  # fmt: skip
    factories.make_item(
        run, DeltaItem.Status.CHANGED, "Five makers share half of the market.", needs_review=True,
        previous_text="Four makers share half of the market.", citations=[2],
    )  # fmt: skip
    for sentence, judge, why in UNASKED:
        factories.make_item(run, "new", sentence, citations=[2], hidden_reason=why, judged_by=judge)
    factories.make_item(
        run,
        "new",
        "Pumps hum at night.",
        hidden_reason="its quote isn’t on any page that the run read",
    )
    factories.make_hits(run, 15)
    at = _put_back(run, days=20)
    TopicFact.objects.filter(topic=topic, text=DEARER).update(created=at, confirmed_at=at)
    return run


def _corrected(run: Run, owner: Any) -> None:
    """Have a person say that one sentence of the report is wrong, and vouch for another."""
    wrong, right = report_sentences.sentences_of(run.report)[:2]
    correcting.check(run.report, right, by=owner.actor)
    correcting.correct(
        run.report, wrong, wrong="The list price, not what is paid.", right="Dealers ask 9,700 euros.",
        by=owner.actor,
    )  # fmt: skip


def _braked(topic: Topic) -> Run:
    """Create a run that its spending limit stopped, with partial results."""
    why = "stopped early: the limit of $0.50 of this run is reached ($0.52)"
    run = factories.make_run(
        topic, status=Run.Status.PARTIAL, stop_reason=why, warnings=[why], prompt_tokens=61_000
    )
    factories.make_report(run, **factories.written("A maker from Turku sells in Germany now."))
    factories.make_item(run, "new", "A maker from Turku sells in Germany now.", citations=[2])
    _put_back(run, days=6)
    return run


def _recheck(topic: Topic) -> Run:
    """Create a recheck of the facts that had gone unchecked."""
    stale = TopicFact.objects.filter(topic=topic).current().exclude(text=DEARER)
    run = factories.make_run(
        topic, trigger=Run.Trigger.RECHECK, rechecks=[str(fact.pk) for fact in stale], new_count=0
    )
    factories.make_report(
        run, delta_heading="Recheck Results", summary="Recheck of 2 facts: 1 confirmed.",
        body="Recheck of 2 facts: 1 confirmed.\n\n## Couldn’t be checked\n\n- The grant pays 30 percent. (its page is gone)",
    )  # fmt: skip
    text = "Four makers share half of the market."
    factories.make_item(run, "confirmed", text, citations=[1])
    TopicFact.objects.filter(topic=topic, text=text).update(
        confirmed_at=timezone.now(), confirmed_run=run.number
    )
    return run


def _unsubscribe(owner: Any) -> str:
    desk = Channel.objects.for_user(owner).filter(kind="email").first()
    foot = notice_text._SIGNER.sign(f"{desk.pk}:{notice_text.DIGEST}") if desk else "x"
    return reverse("research:unsubscribe", args=[foot])
