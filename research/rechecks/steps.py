"""The steps of a recheck; they leave what those of a usual run leave, so that it is saved as one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from django.db import transaction
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from beacon_site.providers.errors import ProviderRejected
from memory.models import Source, Topic, TopicFact
from memory.texts.text import without_citations
from research.deltas.delta import Status
from research.models import Hit
from research.rechecks import comparing, fetching
from research.rechecks.comparing import Page
from research.reporting import composing, report_text
from research.reporting.composing import Draft
from research.search import reading
from research.search.repeating import EXTRACTIVE
from research.steps import planning, saving
from research.working import inputs
from research.working.context import RunContext, StepResult

BY = "recheck"  # who planned


def load(work: RunContext) -> StepResult:
    """Load the memory whose facts are checked; without it there is nothing to check."""
    result = planning.load_memory(work)
    if result.output["memory"] is None:
        why = result.output["problem"] or _("the topic's memory has lapsed")
        raise ProviderRejected(_("There is nothing to recheck: %(why)s.") % {"why": why})
    return result


def choose(work: RunContext) -> StepResult:
    """Name the facts that are checked: those asked for that are still current."""
    facts = fetching.facts_of(work)
    if not facts:
        raise ProviderRejected(
            _("The facts that were to be checked are no longer current: there is nothing to do.")
        )
    output = {"queries": [], "by": BY, "facts": [str(fact.pk) for fact in facts]}
    return StepResult(output, detail=_facts(len(facts)), counts={"facts": len(facts)})


def read_sources(work: RunContext) -> StepResult:
    """Read the facts' own pages again."""
    versions = fetching.read_sources(work, fetching.facts_of(work))
    return _was_read(work, {"asked": [], "order": [], "versions": versions})


def search(work: RunContext) -> StepResult:
    """Search for the facts of which their own pages say nothing any more, each alone."""
    facts = fetching.facts_of(work)
    said = comparing.statements(facts, _known(work), _pages(work))
    silent = [fact for fact in facts if str(fact.pk) not in said]
    queries, versions = fetching.search_for(work, silent)
    new = work.run.hits.count()
    output = {"known": 0, "new": new, "returning": 0, "queries": queries, "versions": versions}
    return _was_read(work, output)


def _was_read(work: RunContext, output: dict[str, Any]) -> StepResult:
    hits = list(work.run.hits.all())
    read = sum(hit.reading == Hit.Reading.READ for hit in hits)
    work.run.put(read_count=read)
    told = ngettext("%(n)d page read", "%(n)d pages read", read) % {"n": read}
    return StepResult(output, detail=told, counts={"read": read, "pages": len(hits)})


def compare(work: RunContext) -> StepResult:
    """Hold what the pages say against the facts, and write it down."""
    memory = inputs.known(work)
    assert memory is not None  # noqa: S101 (`load` saw to it)  # nosec B101
    facts, pages = fetching.facts_of(work), _pages(work)
    said = comparing.statements(facts, _known(work), pages)
    draft = Draft("", "", list(said.values()), written_by=EXTRACTIVE, is_extractive=True)
    output = composing.compose(work, memory, [page.reading for page in pages], draft)
    ids = {str(fact.pk) for fact in facts}
    # A recheck brings no news, and facts that it did not look for have not gone quiet.
    output["changes"] = [
        change
        for change in output["changes"]
        if change["previous_id"] in ids and change["status"] not in (Status.GONE, Status.GONE_QUIET)
    ]
    _forget_unused(work, output["sources"])
    counts = _write_down(work, facts, output)
    _drop_unmentioned(output)
    output |= {"fell_back": False, "heading": _("What the Recheck Found")}
    return StepResult(output, detail=_in_words(counts), counts=counts)


def _drop_unmentioned(output: dict[str, Any]) -> None:
    """Drop the sources of facts that weren't checked, and number the others without gaps."""
    cited = set(report_text.cited([output["body"]]))
    kept = [s for s in output["sources"] if not s.get("is_earlier") or s["n"] in cited]
    numbers = {source["n"]: place for place, source in enumerate(kept, start=1)}
    output["body"] = report_text.renumbered(output["body"], numbers)
    output["sources"] = [source | {"n": numbers[source["n"]]} for source in kept]
    for entry in [*output["changes"], *output["findings"]]:
        entry["citations"] = [numbers[n] for n in entry["citations"] if n in numbers]


def _known(work: RunContext) -> list[str]:
    memory = inputs.known(work)
    return [without_citations(fact.text) for fact in memory.facts] if memory else []


def _pages(work: RunContext) -> list[Page]:
    found = reading.readings(work)
    # Its statements are compared with the facts, not with the last version of their page.
    pages = (replace(page, number=n, previous="") for n, page in enumerate(found, start=1))
    return [Page.of(page) for page in pages]


def _forget_unused(work: RunContext, sources: Sequence[dict[str, Any]]) -> None:
    """Drop what a search found and no fact cites: kept as seen, no later run would tell of it."""
    cited = [source["link"] for source in sources]
    work.run.hits.exclude(link__in=cited).exclude(service=fetching.SERVICE).delete()


def _write_down(work: RunContext, facts: list[TopicFact], output: dict[str, Any]) -> dict[str, int]:
    """Set the small report of the recheck on the step's output; return the counts."""
    by_fact = {change["previous_id"]: change for change in output["changes"]}
    groups: dict[str, list[str]] = {}
    for fact in facts:
        change = by_fact.get(str(fact.pk))
        status = change["status"] if change else ""
        if change:
            line = _line(change)
        else:
            marks = "".join(f"[{s['n']}]" for s in output["sources"] if s["link"] == fact.url)
            line = f"{' '.join(filter(None, [fact.text, marks]))} ({_why_not(work, fact)})"
        groups.setdefault(status, []).append(f"- {line}")
    titles = {
        Status.CONTRADICTED: _("Contradicted"),
        Status.CHANGED: _("Changed"),
        Status.CONFIRMED: _("Confirmed"),
        "": _("Could not be checked"),
    }
    counts = {
        "confirmed": len(groups.get(Status.CONFIRMED, [])),
        "changed": len(groups.get(Status.CHANGED, [])),
        "contradicted": len(groups.get(Status.CONTRADICTED, [])),
        "unchecked": len(groups.get("", [])),
    }
    title = ngettext("Recheck of %(n)d fact", "Recheck of %(n)d facts", len(facts))
    summary = f"{title % {'n': len(facts)}}: {_in_words(counts)}."
    parts = [summary]
    for status, heading in titles.items():
        if groups.get(status):
            parts += [f"## {heading}", "\n".join(groups[status])]
    output["body"], output["summary"] = "\n\n".join(parts), summary
    output["quiet"] = _("Nothing changed: %(counts)s.") % {"counts": _in_words(counts)}
    return counts


def _line(change: dict[str, Any]) -> str:
    marks = "".join(f"[{number}]" for number in change["citations"])
    line = f"{change['sentence']} {marks}".strip()
    if change["status"] == Status.CONFIRMED:
        return line
    return f"{line} ({_('before: %(text)s') % {'text': change['previous_text']}})"


def _why_not(work: RunContext, fact: TopicFact) -> str:
    """Return why a fact could not be checked."""
    hit = work.run.hits.filter(link=fact.url).first() if fact.url else None
    if hit is None:
        return _("it names no source that may be read, and a search found nothing that says it")
    if hit.reading != Hit.Reading.READ:
        why = hit.reason or _("not read")
        return _("its source could not be read: %(why)s") % {"why": why.rstrip(".")}
    return _("its source no longer says it, and a search found no other")


def _facts(count: int) -> str:
    return ngettext("%(n)d fact to check", "%(n)d facts to check", count) % {"n": count}


def _in_words(counts: dict[str, int]) -> str:
    words = {
        "contradicted": _("%(n)d contradicted"),
        "changed": _("%(n)d changed"),
        "confirmed": _("%(n)d confirmed"),
        "unchecked": _("%(n)d could not be checked"),
    }
    told = [words[name] % {"n": counts[name]} for name in words if counts[name]]
    return ", ".join(told)


def save(work: RunContext) -> StepResult:
    """Save the recheck as the topic's next run, without follow-ups.

    The topic's summary stays that of its last report, and a recheck is none of the runs by which
    the sample counts its batches.
    """
    with transaction.atomic():
        mine = Topic.objects.filter(pk=work.topic.pk)
        kept = mine.select_for_update().values("summary", "memory_runs").get()
        result = saving.save(work, [])
        mine.update(**kept)
        for step in ("search", "filter_seen"):
            for url, (etag, modified) in work.output(step)["versions"].items():
                pages = Source.objects.filter(topic=work.topic, url=url)
                pages.update(etag=etag, last_modified=modified)
    return result
