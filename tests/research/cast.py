"""Data for tests of runs: pages, results, a model's answers, and lost workers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from typing import (
    TYPE_CHECKING,
    Any,
    NotRequired,
    get_args,
    get_origin,
    get_overloads,
    get_type_hints,
)

import pytest
from django.db.models.functions import Now
from django.utils import timezone

from beacon_site.providers.search.base import SearchHit
from memory.models import Topic
from research.models import Run, Step
from research.services.runs.context import outputs, run_context
from research.services.runs.context.run_context import RunContext, StepKind
from research.services.runs.execution import pipeline
from tests.providers.fakes import FakeFetcher, FakeLanguageModel, FakeSearch

if TYPE_CHECKING:
    from tests.research.conftest import Providers

PLACES = ["Kyoto", "Lyon", "Graz", "Turku", "Porto", "Busan", "Leeds", "Malaga", "Zadar", "Tampa"]
PLAN = {"queries": ["cell lines", "cell prices"]}


class Killed(BaseException):
    """The worker is gone, as after kill -9: it does nothing more."""


def url(n: int) -> str:
    return f"https://site{n}.example/page"


def hit(n: int, snippet: str = "", **more: Any) -> SearchHit:
    return SearchHit(url=url(n), title=f"Page {n}", snippet=snippet, **more)


def sentence(n: int) -> str:
    place = PLACES[n % len(PLACES)]
    return f"A pilot line for solid-state batteries in {place} made {n + 3},400 cells in May {2010 + n}."


def page(n: int) -> str:
    place = PLACES[n % len(PLACES)]
    return (
        f"Cells from {place}\n\n{sentence(n)}\n\n"
        f"Solid-state batteries from {place} cost {90 + n * 7} euros per kilowatt hour, "
        f"says the owner of plant {n}."
    )


def set_up(providers: Providers, *numbers: int) -> None:
    """Let every query find these pages, and each page be read."""
    providers.search = FakeSearch([hit(n) for n in numbers])
    providers.pages = pages(*numbers)


def pages(*numbers: int) -> FakeFetcher:
    """Return what reads these pages."""
    return FakeFetcher({url(n): page(n) for n in numbers})


def report(*numbers: int, **more: Any) -> dict[str, Any]:
    """A model's report with one finding for each page, which are cited 1, 2, … in order."""
    found = [
        {"sentence": sentence(n), "citations": [place], "quote": sentence(n)}
        for place, n in enumerate(numbers, start=1)
    ]
    lines = "\n".join(f"- {one['sentence']} [{one['citations'][0]}]" for one in found)
    body = f"New lines make cells [1].\n\n## Findings\n\n{lines}"
    return {"summary": "New lines make cells [1].", "body": body, "findings": found} | more


def model(*answers: Any) -> FakeLanguageModel:
    return FakeLanguageModel(*answers)


def started(topic: Topic) -> Run:
    return Run.objects.start(topic, trigger="person", by=topic.owner.actor)


def work_of(topic: Topic) -> RunContext:
    """Return a worker's hold on a new run of the topic, all of its steps laid out."""
    run = Run.objects.claim(started(topic).pk, worker="test")
    assert run is not None
    work = RunContext(run)
    work.create_missing_steps(pipeline.STEPS)
    return work


def through(work: RunContext, last: str) -> RunContext:
    """Run the steps of a run up to and including `last`."""
    for kind in pipeline.STEPS:
        work.perform(kind)
        if kind.name == last:
            break
    return work


def lose_lease(run: Run) -> None:
    Run.objects.filter(pk=run.pk).update(lease_until=timezone.now() - timedelta(seconds=1))


@contextmanager
def killed_after(step: str) -> Iterator[None]:
    """Lose the worker when it has finished `step`."""
    original = RunContext.perform

    def perform(self: RunContext, kind: StepKind) -> None:
        original(self, kind)
        if kind.name == step:
            raise Killed

    with pytest.MonkeyPatch.context() as patch, pytest.raises(Killed):
        patch.setattr(RunContext, "perform", perform)
        yield


@contextmanager
def before_step(step: str, act: Callable[[], object]) -> Iterator[None]:
    """Do something when the function of `step` begins."""

    def function(kind: StepKind) -> Callable[[RunContext], Any]:
        return lambda work: (act(), kind.function(work))[1]

    kinds = [
        replace(kind, function=function(kind)) if kind.name == step else kind
        for kind in pipeline.STEPS
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pipeline, "STEPS", kinds)
        yield


def carried_out(run: Run) -> Run:
    pipeline.execute(run.pk, worker="test")
    run.refresh_from_db()
    return run


def steps(run: Run) -> dict[str, str]:
    return dict(run.steps.order_by("position").values_list("name", "state"))


def followed(run: Run, name: str) -> Step:
    """Run one follow-up of the run, as a worker does, and return its row."""
    step = run.steps.get(is_follow_up=True, name=name)
    Step.objects.filter(pk=step.pk).update(state="waiting", not_before=Now() - timedelta(seconds=1))
    pipeline.run_follow_up(step.pk)
    step.refresh_from_db()
    run.refresh_from_db()
    return step


def untyped_outputs(run: Run) -> dict[str, set[str]]:
    """The keys in the run's step outputs that their types lack, or that they lack themselves."""
    types = {}
    for one in get_overloads(RunContext.output):
        hints = get_type_hints(one, vars(run_context) | {"outputs": outputs})
        types[get_args(hints["name"])[0]] = hints["return"]
    wrong = {}
    for step in run.steps.filter(part=0, is_follow_up=False).exclude(output={}):
        made = types.get(step.name, outputs.SaveOutput)
        fields = get_type_hints(made, include_extras=True)
        optional = {name for name, hint in fields.items() if get_origin(hint) is NotRequired}
        needed = fields.keys() - optional if made.__total__ else set()
        if odd := (needed - step.output.keys()) | (step.output.keys() - fields.keys()):
            wrong[step.name] = odd
    return wrong


def by_model(
    topic: Topic, providers: Providers, run_of: Callable[[Topic], Run], *answers: Any
) -> Run:
    """A baseline over page 1, written by a model that then gives `answers` to the follow-up steps."""
    set_up(providers, 1)
    providers.model = model(PLAN, report(1), *answers)
    return run_of(topic)
