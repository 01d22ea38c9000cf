"""The data of the checked pages: people and topics in every state, as rows in a site's database.

`python -m tests.browser.cast` creates them and prints the URLs that need a key, as JSON;
with `newcomers 9` it makes only nine accounts without anything, and prints their names.
"""

from __future__ import annotations

import json
import sys
import time
from datetime import timedelta
from decimal import Decimal
from typing import Any
from urllib.parse import urlencode

import django

django.setup()

from django.contrib.auth import get_user_model  # noqa: E402
from django.contrib.auth.hashers import make_password  # noqa: E402
from django.urls import reverse  # noqa: E402
from django.utils import timezone  # noqa: E402

from beacon_site.providers.search import sample  # noqa: E402
from memory.models import (  # noqa: E402
    Connection,
    Invitation,
    Message,
    ModelCall,
    OAuthClient,
    Topic,
    TopicFact,
    User,
)
from memory.services.files import agent_folders  # noqa: E402
from memory.services.library import documents as library_services  # noqa: E402
from memory.services.notes import saving as notes  # noqa: E402
from research.models import (  # noqa: E402
    DeltaItem,
    Hit,
    Report,
    Run,
    Step,
)
from research.services.runs.execution import pipeline  # noqa: E402
from research.services.runs.execution.starting import (  # noqa: E402
    create_sample_topic,
    start_run,
)
from research.services.runs.reporting import delta  # noqa: E402
from research.services.schedules import scheduling  # noqa: E402
from research.services.topics.settings import standing_rules  # noqa: E402
from tests.browser import (  # noqa: E402
    cast_archive,
    cast_ask,
    cast_compare,
    cast_content,
    cast_deep,
    cast_file_history,
    cast_files,
    cast_memory,
    cast_notices,
    cast_plans,
    cast_records,
    cast_review,
    cast_scripts,
    cast_shares,
    cast_trust,
    cast_watch,
)
from tests.browser.cast_reflection import looked_back  # noqa: E402
from tests.browser.visitor import PASSWORD  # noqa: E402
from tests.research import factories  # noqa: E402

LONG = (
    "Everything that is known about the long-term behaviour of lithium-iron-phosphate cells in "
    "stationary storage, Donaudampfschifffahrtselektrizitätenhauptbetriebswerkbauunterbeamten"
    "gesellschaft included, https://example.org/a/path/that/does/not/break/anywhere/at/all"
)
TITLES = {
    "long": LONG,
    "chinese": "人工智能芯片出口管制的最新进展与主要厂商的应对",
    "rtl": "ביצועי סוללות מצב מוצק (solid-state) ושוק האנרגיה",
    "emoji": "🔋 Batteries & <b>cells</b> 👩‍🔬",
}
UNREAD = (
    "The page doesn’t contain “heading: News”. The page may need JavaScript to show its text. To let Beacon read "
    "such pages, an admin can set up Chromium."
)
CHINESE = "据报道，新型固态电池的能量密度达到每公斤四百瓦时，比上一代高出百分之三十。"


HASH = make_password(PASSWORD)


def person(name: str, **more: Any) -> Any:
    """Create an account."""
    made = get_user_model().objects.create_user(username=name, email=f"{name}@example.org", **more)
    get_user_model().objects.filter(pk=made.pk).update(password=HASH)
    return made


def run_url(run: Run) -> str:
    """Return the URL of a run's page."""
    return reverse("research:run", args=[run.topic.slug, run.pk])


def sample_topic(owner: Any) -> dict[str, str]:
    """Run the sample's four runs."""
    topic = create_sample_topic(owner, by=owner.actor)
    found = {}
    for number in range(1, 5):
        if number == 4:
            standing_rules.add(topic, "check", "prices per kilowatt hour", by=owner.actor)
            standing_rules.add(topic, "stop", "spam.example.org", by=owner.actor)
        run = start_run(topic, trigger=Run.Trigger.PERSON, by=owner.actor)
        # The site's own worker may have been quicker: then wait for it.
        pipeline.execute(run.pk, worker="cast")
        while Run.objects.filter(pk=run.pk).unfinished().exists():
            time.sleep(0.1)
        found[f"report {number}"] = run_url(run)
    assert topic.title == sample.SAMPLE_TITLE
    return found | {"sample": topic.slug}


def delta_of_all_kinds(owner: Any) -> dict[str, str]:
    """Create a report whose delta has every status, and facts in every state."""
    topic = factories.make_topic(owner, "Asynchronous I/O")
    watched = (
        "https://shop.example/plans | css: .prices",
        "https://shop.example/news | heading: News",
    )
    for rule in watched:
        standing_rules.add(topic, "check", rule, by=owner.actor)
    run = factories.make_second_run(topic)
    for words in ("Version 19 is planned for autumn.", "The default is io_uring on Linux."):
        TopicFact.objects.add(topic, words, by=owner.actor, url="https://example.org/plans")
    off = topic.facts.filter(text__contains="off by default")
    off.update(contradicted_at=timezone.now())
    first, second = topic.facts.filter(state="current", edited_by_person=True)
    first.set_lock("locked", by=owner.actor)
    second.strike(by=owner.actor, why="only where liburing was built in")
    factories.make_call(run)
    looked_back(run)
    plans = "| Plan | Price a month |\n|---|---|\n| Basic | €9 |\n| Pro | €19 |\n| Team | €49 |\n| Company | €99 |"
    factories.make_watched(topic.runs.get(number=1), plans)
    factories.make_watched(run, plans.replace("€19", "€21") + "\n| School | €5 |")
    factories.make_watched(
        run, "", url="https://shop.example/news", link="https://shop.example/news", part="heading: News",
        content_item=None, reading=Hit.Reading.FAILED, reason=UNREAD,
    )  # fmt: skip
    changed = factories.make_run(topic, status=Run.Status.PARTIAL, new_count=0, read_count=0)
    changed.warnings = [
        "SerpAPI: the key was rejected (401). Check it in Settings → Models and search."
    ]
    changed.save(update_fields=["warnings"])
    since = delta.since_line(changed.started_at, run.number)
    quiet = f"No new pages have been read {since}."
    factories.make_report(changed, sources=[], delta=quiet, body="", summary="", delta_since=since)
    factories.make_steps(changed)
    fact = topic.facts.filter(state="current").first()
    return {
        "delta": run_url(run),
        "partial": run_url(changed),
        "topic": topic.slug,
        "fact": reverse("research:fact-edit", args=[topic.slug, fact.pk]),
        "history": reverse("research:fact-history", args=[topic.slug, second.pk]),
    }


def by_keyboard(owner: Any) -> dict[str, str]:
    """Give an owner a delta to read, proposals, conflicts, and a note in Trash."""
    cast_review.proposed(owner)
    thrown = notes.write_note(owner, "log", "The depot opens at seven.", by=owner.actor)
    thrown.trash(by=owner.actor)
    return {"kira delta": delta_of_all_kinds(owner)["delta"]}


def scripts(owner: Any) -> dict[str, str]:
    """Create topics whose titles and reports are hard to set."""
    found = {}
    for name, title in TITLES.items():
        topic = factories.make_topic(owner, title, settings={})
        factories.make_report(factories.make_run(topic))
        run = factories.make_run(topic)
        sentence = {"chinese": CHINESE, "rtl": title + ".", "long": f"{title} {title}."}.get(
            name, title
        )
        body = f"{sentence} [1]\n\n## {title[:60]}\n\n- {sentence} [2]\n\n| a | b |\n|---|---|\n| {title} | 2 |\n\n```\n{'code ' * 40}\n```\n"
        sources = [factories.make_source(n, title, domain=f"{n}.example.org") for n in (1, 2)]
        factories.make_report(run, title=title, body=body, summary=sentence, sources=sources)
        factories.make_item(run, DeltaItem.Status.NEW, sentence, citations=[1], quote=sentence)
        factories.make_fact(topic, sentence, run)
        factories.make_hit(run, 1, title=title, url=f"https://example.org/{'long-' * 40}")
        factories.make_steps(run)
        found[name] = run_url(run)
        found[f"{name} slug"] = topic.slug
    return found


def unfinished(owner: Any) -> dict[str, str]:
    """Create a run in progress, a failed one and a cancelled one."""
    going = factories.make_run(
        factories.make_topic(owner, "Runs that go on"), saved=False,
        lease_until=timezone.now() + timedelta(days=1), prompt_tokens=4210,
        money=Decimal("0.0042"),
    )  # fmt: skip
    factories.make_steps(
        going, done=4, state=Step.State.RUNNING, detail="7 of 12 pages · example.org",
        counts={"read": 7, "pages": 12},
    )  # fmt: skip
    factories.make_search(going, "PostgreSQL 18", 15, processed=7)
    topic = factories.make_topic(owner, "Runs that end badly")
    why = "SerpAPI: the key was rejected (401). Check it in Settings → Models and search."
    failed = factories.make_run(topic, saved=False, status=Run.Status.FAILED, error=why)
    now = timezone.now()
    Run.objects.filter(pk=failed.pk).update(finished_at=now, started_at=now - timedelta(seconds=9))
    factories.make_steps(failed, done=2, state=Step.State.FAILED, warning=why, finished_at=now)
    queries = ["PostgreSQL 18", "PostgreSQL 18 release notes"]
    failed.steps.filter(name="plan").update(output={"queries": queries})
    cancelled = factories.make_run(topic, saved=False, status=Run.Status.CANCELLED)
    Run.objects.filter(pk=cancelled.pk).update(finished_at=timezone.now())
    factories.make_steps(cancelled, done=1)
    return {
        "running": run_url(going),
        "failed": run_url(failed),
        "cancelled": run_url(cancelled),
        "failed slug": topic.slug,
    }


PILOT_LINE = """# Pilot line

The **pilot** line in Lanling started in June. It makes sodium-ion cells of 160 Ah for stationary storage.

## Output

The line makes about 400 cells a day in one shift. Nine of ten pass the final check. Most rejects leak at the
welded lid, and the supplier of the lids has changed the seal since August.

Another shift starts in October if the yield stays above 92 percent for four weeks. The coating machine is
the bottleneck: it runs at 18 metres per minute, and the rest of the line could take 30.

## Costs

| Item | Per kWh |
|---|---|
| Cathode | 21 dollars |
| Anode and electrolyte | 24 dollars |
| Assembly | 26 dollars |

Without the depreciation of the building, a cell costs 71 dollars per kWh. The plan for the full plant is 55
dollars, mainly because hard carbon becomes cheaper in larger lots.

## Open questions

- Who takes the cells that fail at 80 percent of their capacity?
- Does the fire inspection have to be repeated after the change of the seal?
- When does the contract with the grid operator end?
"""


def library_and_people(owner: Any) -> dict[str, str]:
    """Fill the library, the people page and the trash."""
    document = library_services.add_document(owner, text=PILOT_LINE, by=owner.actor)
    for title in (*TITLES.values(), "Notes of the spring meeting"):
        library_services.add_document(owner, text=f"# {title}\n\n{title}.", by=owner.actor)
    Invitation.create_with_token(by=owner, note="Noor from the lab", grants_admin=False)
    gone = factories.make_topic(owner, "A topic in the trash")
    gone.trash(by=owner.actor)
    factories.make_topic(owner, "An archived topic").archive(by=owner.actor)
    weekly = scheduling.schedule_fields(preset="weekly", time_zone="Europe/Berlin")
    factories.make_topic(
        owner, "Grid storage tenders", schedule=weekly, labels=["energy", "tenders"]
    )
    return {
        "document": reverse("memory:library-document", args=[document.pk]),
        "document edit": reverse("memory:library-edit", args=[document.pk]),
        "purge": reverse("research:topic-purge", args=[gone.pk]),
    }


PROBED = {
    "ok": True,
    "base_url": "http://127.0.0.1:9/v1",
    "model": "llama3.1:8b",
    "kind": "compatible",
    "message": "llama3.1:8b answered “ready”.",
    "answer": "ready",
    "json_mode": "object",
    "max_tokens_field": "max_tokens",
    "tools": False,
    "streams": True,
    "embedding_model": "nomic-embed-text",
    "embedding_dimensions": 768,
    "context_tokens": None,
    "notes": ["It takes a schema but does not keep to it, so shapes will be asked for in words."],
}


def spending(owner: Any) -> None:
    """Create a test of a model that is not set up (places.py does), and the calls of two months."""
    at = timezone.now().isoformat(timespec="seconds")
    Connection.objects.create(kind="model", name="model", profile={"probed": PROBED | {"at": at}})
    get_user_model().objects.filter(pk=owner.pk).update(monthly_tokens=2_000_000, monthly_money=5)
    saved = Run.objects.filter(topic__owner=owner).exclude(number=None).select_related("topic")
    calls = []
    for place, run in enumerate(saved[:12]):
        for ago, purpose, money in (
            (0, "plan", "0.004"),
            (0, "write", None),
            (33, "write", "0.11"),
        ):
            calls.append(
                ModelCall(
                    owner=owner,
                    topic=run.topic,
                    purpose=purpose,
                    source=run.source,
                    model="llama3.1:8b" if ago else "gpt-5-mini",
                    prompt_tokens=9_000 + 700 * place,
                    completion_tokens=1_200,
                    money=money and Decimal(money) * (place + 1),
                    created=timezone.now() - timedelta(days=ago),
                )
            )
    ModelCall.objects.bulk_create(calls)


def asking_app() -> str:
    """Register an app; return the address that it sends a person to."""
    back = "https://app.example/back"
    app = OAuthClient.objects.create(client_id="app", name="Desk app", redirect_uris=[back])
    wanted = {
        "response_type": "code",
        "client_id": app.client_id,
        "redirect_uri": back,
        "code_challenge": "a" * 43,
        "code_challenge_method": "S256",
    }
    return f"/oauth/authorize?{urlencode(wanted)}"


def main() -> None:
    """Create everything and print the URLs."""
    # The cast writes the answers itself. The site's own worker has no model, and must not be first.
    Message.wake_after_commit = lambda _message: None  # type: ignore[method-assign]
    owner = person("grace", is_staff=True, is_superuser=True, time_zone="Europe/Berlin")
    person("nils")
    person("otto", is_active=False)
    for name in ("vera", "viktor"):  # who decide on what waits for them
        cast_review.proposed(person(name))
    found = by_keyboard(person("kira"))
    found |= delta_of_all_kinds(owner) | scripts(owner) | unfinished(owner)
    found |= cast_plans.waiting_plan(owner) | cast_deep.deep_runs(owner)
    found |= library_and_people(owner) | sample_topic(owner)
    found |= cast_compare.comparison(owner) | {"writing": cast_compare.writing(owner)}
    found |= (
        cast_memory.remembered(owner)
        | cast_trust.happened(owner)
        | cast_records.records(owner)
        | cast_review.proposed(owner)
        | cast_ask.asked(owner)
        | cast_content.stored(owner)
        | cast_files.files(owner)
        | cast_file_history.histories(owner)
        | cast_shares.shared(owner)
        | cast_notices.notices(owner)
        | cast_watch.watched(owner)
    )
    cast_content.connected(owner)
    spending(owner)
    found["asking app"] = asking_app()
    found |= cast_archive.archives(owner)
    agent_folders.catch_up()
    found |= cast_scripts.hard_words(person("hedy"))
    found |= cast_shares.members(owner, User.objects.get(username="hedy"))
    Report.objects.filter(run__topic__title__in=TITLES.values()).exclude(
        run__topic__title=LONG
    ).update(read_at=timezone.now())
    assert Topic.objects.for_user(owner).exists()
    print(json.dumps(found))


def newcomers(count: int) -> None:
    """Create accounts, and print their names."""
    names = [f"person{number}" for number in range(count)]
    for name in names:
        person(name)
    print(json.dumps(names))


if __name__ == "__main__":
    newcomers(int(sys.argv[2])) if "newcomers" in sys.argv else main()
