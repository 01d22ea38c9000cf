"""Runs to compare: a topic whose facts change over four runs, and an unfinished report."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import Any

from django.urls import reverse
from django.utils import timezone

from memory.models import Topic, TopicFact
from memory.models.actors import RESEARCH
from research.models import DeltaItem, Run, Step
from tests.research import factories

SALES = "Heat pump sales in Germany reached {} units in {}."
GRANT = "The grant pays for {} percent of the cost of a heat pump in an old house."
NOISE = "The noise limit for pumps near bedrooms is 35 decibels at night."
ORDERS = "Installers report waiting times of {} weeks in the south."
FACTORY = "The factory in Görlitz makes 40,000 pumps a year."
PILOT = "A pilot in Ulm heats 120 flats with water from the Danube."
GAS = "New gas boilers are forbidden in new houses from 2028 on."
SAID = "New gas boilers stay allowed in new houses, says the draft of the law."
BODY = """{lead} [1]

## Market

{market} [2]

{noise} The rule has not changed for years, and the makers have long met it. [3]

## Money

{money} [1] Whoever replaces an oil heating gets more, if the income is small. [2]

## Already known

- {factory} [3]
- The law asks for a plan of the city before anybody is obliged to anything.
- Cold districts keep their networks of hot water for the time being.
- Old radiators do for most houses that were insulated after 1995.
"""


def comparison(owner: Any) -> dict[str, str]:
    """Create a topic with four runs whose facts change, and a topic with one report."""
    topic = factories.make_topic(owner, "Heat pumps in old houses")
    asked = topic.settings.as_json()
    first, second, third, fourth = (_ran(topic, number, asked) for number in range(1, 5))
    sales = _learn(topic, first, SALES.format("168,000", 2024))
    grant = _learn(topic, first, GRANT.format(30))
    noise = _learn(topic, first, NOISE)
    factory = _learn(topic, first, FACTORY)
    kept = _learn(topic, first, GAS)
    kept.set_lock("locked", by=owner.actor)
    _change(second, sales, SALES.format("193,000", 2025))
    orders = _learn(topic, second, ORDERS.format("six"))
    factories.make_item(second, "new", orders.text, citations=[2])
    pilot = _learn(topic, second, PILOT)
    factories.make_item(second, "new", pilot.text, citations=[3])
    _change(third, orders, ORDERS.format("nine"))
    pilot.retire(by=RESEARCH, why="not among the facts in Run #3", run=3, source=third.source)
    factories.make_item(third, "confirmed", noise.text, previous_fact=noise, citations=[3])
    _change(fourth, grant, GRANT.format(25))
    _learn(topic, fourth, SAID)
    factories.make_item(
        fourth, "contradicted", SAID, previous_fact=kept, previous_text=kept.text,
        quote="Gas boilers remain permitted in new buildings", citations=[1],
    )  # fmt: skip
    factories.make_item(fourth, "gone quiet", factory.text, previous_fact=factory)
    factories.make_item(fourth, "new", "The eleventh finding found no room among the ten facts.")
    first.report.mark_read()
    second.report.mark_read()
    young = factories.make_topic(owner, "Ground heat in small gardens")
    long_ago = timezone.now() - timedelta(days=2)  # no run of these counts against the hour's limit
    factories.make_report(
        factories.make_run(young, created=long_ago),
        **factories.written(
            "A horizontal collector needs about twice the heated area as garden.",
            "Probes need a permit from the water authority.",
        ),
    )
    return {"compare": reverse("research:compare", args=[topic.slug]), "young": young.slug}


def _ran(topic: Topic, number: int, asked: dict[str, Any]) -> Run:
    """Return a saved run with a report that changes a little with its number."""
    services = ["serpapi", "wikipedia"] if number < 3 else ["brave", "wikipedia", "gdelt"]
    run = factories.make_run(topic, settings=asked | {"services": services})
    at = timezone.now() - timedelta(days=7 * (4 - number), hours=2)
    began = at - timedelta(seconds=41)
    Run.objects.filter(pk=run.pk).update(finished_at=at, started_at=began, created=began)
    lead = SALES.format("168,000", 2024) if number == 1 else SALES.format("193,000", 2025)
    body = BODY.format(
        lead=lead,
        market="Prices fell." if number < 3 else "Prices rose again in autumn, by four percent.",
        noise=NOISE,
        money=GRANT.format(30 if number < 4 else 25),
        factory=FACTORY,
    )
    if number > 2:
        body += "- A sentence that stands in later reports alone, about a street in Ulm.\n"
    kinds = ["Federal statistics", f"Survey of installers {number}", "Noise rules explained"]
    sources = [
        factories.make_source(
            n, title, url=f"https://example.org/{title}", link=f"https://example.org/{n}"
        )
        for n, title in enumerate(kinds[:: 1 if number % 2 else -1], start=1)
    ]
    factories.make_report(run, body=body, summary=f"{lead} [1]", sources=sources, created=at)
    return run


def _learn(topic: Topic, run: Run, text: str) -> TopicFact:
    return factories.make_fact(
        topic, text, run, url="https://example.org/1", source_title="Federal statistics"
    )


def _change(run: Run, fact: TopicFact, text: str) -> None:
    """Let a run state a fact again."""
    _learn(run.topic, run, text)
    why = f"replaced in Run #{run.number} by “{text}”"
    fact.retire(by=RESEARCH, why=why, run=run.number, source=run.source)
    factories.make_item(
        run, DeltaItem.Status.CHANGED, text, previous_fact=fact, previous_text=fact.text
    )


def writing(owner: Any) -> str:
    """Create a run whose model has written half of its report; return its address."""
    topic = factories.make_topic(owner, "Runs that write")
    run = factories.make_run(
        topic, saved=False, attempt=1,
        created=timezone.now() - timedelta(minutes=65),
        # Its worker never goes silent while the tests run.
        heartbeat_at=timezone.now() + timedelta(hours=2),
        lease_until=timezone.now() + timedelta(days=1), prompt_tokens=14210,
        money=Decimal("0.0142"),
    )  # fmt: skip
    factories.make_steps(run, done=5, state=Step.State.RUNNING, attempt=1, detail="87 words so far")
    body = BODY.format(
        lead=SALES.format("193,000", 2025), market="Prices rose again in autumn, by four percent.",
        noise=NOISE, money=GRANT.format(25), factory=FACTORY,
    )  # fmt: skip
    half = body[: body.index("Whoever") + 60]
    Step.objects.filter(run=run, name="write").update(output={"draft": half})
    factories.make_search(run, "heat pump sales 2025", 15, processed=12)
    return reverse("research:run", args=[topic.slug, run.pk])
