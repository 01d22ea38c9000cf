"""What the page of a run shows while its plan waits for a person."""

from __future__ import annotations

from typing import Any

from django.utils import timezone
from django.utils.formats import date_format
from django.utils.translation import gettext as _

from memory.contexts.memory_for_prompt import still_offered
from memory.llm import connections
from research.forms.plan import PlanForm
from research.models import Run, Step
from research.search import searching
from research.steps import plan_review, planning


def context(run: Run, form: PlanForm | None = None) -> dict[str, Any]:
    """Return the plan that waits, as `form` where a person has been at it, and its grounds.

    Empty where the plan is gone: it was made anew since `run` was read, which is read again then.
    """
    rows = Step.objects.filter(run=run, name__in=("load_memory", "plan"))
    steps = {step.name: step for step in rows}
    plan, loaded = steps["plan"].output, steps["load_memory"]
    if not plan:
        run.refresh_from_db(fields=["status", "waiting_since", "progress"])
        return {}
    token = token_of(run)
    initial = {"queries": "\n".join(plan["queries"]), "seen": token}
    settings = run.asked_for
    return {
        "plan_form": form or PlanForm(initial=initial),
        "plan_token": token,
        "planned_by": planning.by_words(plan["by"]),
        "goes_on_at": plan_review.goes_on_at(run),
        "asked_for": settings,
        "services": [
            searching.label_of(name) for name in connections.search_services(settings.services)
        ],
        "memory": loaded.output.get("memory") or {},
        "memory_words": loaded.detail,
        "taught": still_offered(run.topic.owner, plan.get("taught", [])),
    }


def token_of(run: Run) -> str:
    """Return what tells this waiting plan from an earlier or later one; empty if none waits."""
    return run.waiting_since.isoformat() if run.waiting_since else ""


def words_of(run: Run, typed: str) -> str:
    """Return `typed` if a person wrote any of it; empty for the queries as they were planned."""
    step = Step.objects.filter(run=run, name="plan", part=0).first()
    plan = step.output if step else {}
    lines = [line.strip() for line in typed.splitlines() if line.strip()]
    return "" if lines in (plan.get("proposed"), plan.get("queries")) else typed


def in_words(run: Run) -> str:
    """Return what a run waits for whose plan somebody is to look at."""
    goes_on = plan_review.goes_on_at(run)
    if goes_on is None:
        return _("It waits for you to look at its plan, and goes on when you say so.")
    at = date_format(timezone.localtime(goes_on), "j F, H:i")
    return _("It waits for you to look at its plan; unseen it goes on by itself on %(at)s.") % {
        "at": at
    }
