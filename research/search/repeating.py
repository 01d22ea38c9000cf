"""A run that repeats another as it was: its queries, and what of then is no longer there."""

from __future__ import annotations

from django.utils.translation import gettext as _

from beacon_site.providers.catalogue import KEY
from memory.documents import library
from memory.llm import connections
from research.models import Run, Step
from research.search import searching
from research.working.context import RunContext

EXTRACTIVE = "extractive"  # what stands in a manifest where no model wrote


def queries_of(run: Run) -> list[str]:
    """Return the queries that `run` asked; empty if it keeps none."""
    kept: list[str] = run.manifest.get("queries") or []
    if kept:
        return kept
    step = Step.objects.filter(run=run, name="plan", part=0).first()
    planned: list[str] = step.output.get("queries", []) if step else []
    return planned


def what_is_gone(work: RunContext, was: Run) -> list[str]:
    """Return in words which services of the run `was` this one cannot ask any more."""
    return [
        _("%(run)s asked %(service)s, which cannot be asked any more: %(why)s")
        % {"run": was, "service": searching.label_of(name), "why": why}
        for name, why in _services_gone(work)
    ]


def _services_gone(work: RunContext) -> list[tuple[str, str]]:
    names = work.settings.services
    if not names:
        return []
    allowed, profiles = connections.search_services(names), connections.search_profiles()
    gone = []
    for name in names:
        profile = profiles.get(name)
        if name not in allowed:
            gone.append((name, _("this Beacon does not ask it (BEACON_SEARCH)")))
        elif profile is not None and (lacks := connections.lacks(profile)):
            missing = _("its key") if lacks == KEY else _("its address")
            gone.append((name, _("%(what)s is not set up") % {"what": missing}))
        elif name == "library" and library.is_empty(work.topic.owner):
            gone.append((name, _("the library holds no document")))
    return gone


def model_gone(was: Run) -> str:
    """Return in words that another model writes than wrote `was`, or none; empty if it is the same.

    For a run that has something to write from: without new pages no model is asked at all.
    """
    profile = connections.llm_profile()
    before, now = was.manifest.get("written_by", ""), profile.model if profile else EXTRACTIVE
    if not before or before == now:
        return ""
    values = {"run": was, "before": before, "now": now}
    if before == EXTRACTIVE:
        return _("%(run)s was written without a model; this one asks %(now)s.") % values
    if now == EXTRACTIVE:
        return _("%(run)s was written by %(before)s; now no model is set up.") % values
    return _("%(run)s was written by %(before)s; this one asks %(now)s.") % values
