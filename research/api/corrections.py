"""`/corrections`: sentences of reports that a person said are wrong; made, listed, taken back."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal, Self
from uuid import UUID

from django.utils.translation import gettext as _
from ninja import Status
from pydantic import BaseModel, Field

from memory.api.auth import ADMIN, ApiRequest, Caller
from memory.api.frame import Body, router
from memory.api.paging import PAGE, Listing, Paged, listing
from memory.api.problems import Problem, not_found
from memory.errors import InvalidValue, MemoryRefused
from research.facts import correcting
from research.models import CorrectedFact, Correction, Report
from research.reporting import report_text
from research.reporting import sentences as report_sentences

api = router("corrections")


class FactSeenIn(Body):
    """A fact that is to change, as it was seen."""

    id: UUID = Field(strict=False)
    version: int = Field(ge=1)


class CorrectionIn(Body):
    """What is wrong with a sentence of a report."""

    run: int = Field(description="The run whose report says it.")
    sentence: str = Field(max_length=4000, description="As the report says it, without citations.")
    wrong: str = Field(max_length=correcting.MOST_WORDS)
    right: str = Field("", max_length=correcting.MOST_WORDS)
    facts: list[FactSeenIn] | None = Field(
        None, max_length=40, description="Left out: all that say the sentence. Empty: none."
    )


class CorrectedFactOut(BaseModel):
    """What became of a fact."""

    fact: UUID
    act: CorrectedFact.Act
    before: str
    after: str


class CorrectionOut(BaseModel):
    """A correction; `taken_back_at` once it stands no more."""

    id: UUID
    topic: str
    run: int
    sentence: str
    wrong: str
    right: str
    by: str
    created: datetime
    taken_back_at: datetime | None
    lesson: UUID | None = Field(description="The observation that later runs are told.")
    facts: list[CorrectedFactOut]

    @classmethod
    def of(cls, one: Correction) -> Self:
        """Return a correction as it is told; its report, run, topic and facts are loaded."""
        same = ("id", "sentence", "wrong", "right", "by", "created", "taken_back_at")
        return cls(
            topic=one.report.run.topic.slug,
            run=one.report.run_id,
            lesson=one.lesson_id,
            facts=[
                CorrectedFactOut(
                    fact=fact.fact_id,
                    act=CorrectedFact.Act(fact.act),
                    before=fact.before,
                    after=fact.after,
                )
                for fact in one.facts.all()
            ],
            **{name: getattr(one, name) for name in same},
        )


def _mine(caller: Caller) -> Any:
    rows = Correction.objects.of(caller.owner).readable()
    return rows.select_related("report__run__topic").prefetch_related("facts")


class CorrectionsWanted(Paged):
    """Which corrections are listed."""

    topic: str = Field("", max_length=80, description="A topic's slug.")
    state: Literal["standing", "all"] = "standing"


@api.get("", auth=ADMIN, response=Listing[CorrectionOut])
def list_corrections(
    request: ApiRequest, wanted: CorrectionsWanted = PAGE
) -> Listing[CorrectionOut]:
    """List corrections, the newest first: those that stand, unless all are asked for."""
    rows = _mine(request.auth)
    if wanted.state == "standing":
        rows = rows.standing()
    if wanted.topic:
        rows = rows.filter(topic__slug=wanted.topic)
    return listing(rows.order_by(), wanted, name="corrections", out=CorrectionOut.of)


@api.post("", auth=ADMIN, response={201: CorrectionOut, 404: None})
def make_correction(request: ApiRequest, told: CorrectionIn) -> Status[CorrectionOut]:
    """Say that a sentence is wrong: its facts change, later runs are told.

    409: it is corrected already, or a fact has changed since `version`.
    """
    caller = request.auth
    reports = Report.objects.of(caller.owner).live().filter(run__topic__trashed_at=None)
    report = reports.select_related("run__topic__owner", "owner").filter(run=told.run).first()
    if report is None:
        raise not_found(_("There is no report of such a run, or it is not yours."))
    key = report_text.sentence_key(report_sentences.plain_words(told.sentence))
    sentence = report_sentences.sentence_of(report, key)
    if sentence is None:
        problem = _("The report does not say this sentence.")
        raise Problem(422, problem, errors={"sentence": [problem]})
    facts = correcting.facts_of(report, sentence)
    seen = {one.id: one.version for one in told.facts or []}
    chosen = [
        correcting.FactSeen(fact, seen.get(fact.pk, fact.version))
        for fact in facts
        if told.facts is None or fact.pk in seen
    ]
    if len(seen) > len(chosen):
        problem = _("One of these facts did not come from the sentence.")
        raise Problem(422, problem, errors={"facts": [problem]})
    made = _made(report, sentence, told, chosen, caller)
    return Status(201, CorrectionOut.of(_mine(caller).get(pk=made.pk)))


def _made(report: Report, sentence: Any, told: CorrectionIn, facts: Any, caller: Caller) -> Any:
    try:
        return correcting.correct(
            report, sentence, wrong=told.wrong, right=told.right, facts=facts, by=caller.by
        )
    except InvalidValue as exc:
        if exc.errors:
            raise
        raise Problem(409, str(exc)) from exc


@api.post("/{uuid:key}/take-back", auth=ADMIN, response=CorrectionOut)
def take_back_correction(request: ApiRequest, key: UUID) -> CorrectionOut:
    """Undo all that a correction did.  409: it was taken back, or a fact has changed again since."""
    mine = _mine(request.auth).select_related("lesson", "report__owner", "topic")
    one = mine.filter(pk=key).first()
    if one is None:
        raise not_found(_("There is no such correction, or it is not yours."))
    try:
        done = correcting.take_back(one, by=request.auth.by)
    except MemoryRefused as exc:
        raise Problem(409, str(exc)) from exc
    if not done:
        raise Problem(409, _("It was taken back before."))
    return CorrectionOut.of(_mine(request.auth).get(pk=key))
