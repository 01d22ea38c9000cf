"""The sentences of a report: where each stands in its source, checked by hand, corrected."""

from __future__ import annotations

import uuid
from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from beacon_site.http import BeaconRequest
from memory.errors import InvalidValue, MemoryRefused
from memory.models import Topic
from memory.responses import go_back, refused
from research.facts import correcting
from research.forms.correction import SentenceForm
from research.models import Correction, Report, Run
from research.reporting import sentences as report_sentences
from research.reporting.sentences import ReportSentence
from research.reports import sentence_rows, source_page


def _report(request: BeaconRequest, slug: str, run_id: int) -> Report:
    mine = Run.objects.of(request.user).filter(topic__slug=slug, topic__trashed_at=None)
    found = mine.exclude(report=None).filter(report__trashed_at=None)
    run = get_object_or_404(found.select_related("report__owner", "topic__owner"), pk=run_id)
    report: Report = run.report
    return report


def _sentence(report: Report, key: str) -> ReportSentence:
    found = report_sentences.sentence_of(report, key)
    if found is None:
        raise Http404(_("The report holds no such sentence."))
    return found


@require_safe
@login_required
def run_source(request: BeaconRequest, slug: str, run_id: int, n: int) -> HttpResponse:
    """Show the text of a source as it was read, with the quotes marked where they stand."""
    report = _report(request, slug, run_id)
    page = source_page.source_page(report, n)
    if page is None:
        raise Http404(_("The report has no such source."))
    context = {"report": report, "run": report.run, "topic": report.run.topic, "page": page}
    return render(request, "research/run_source.html", context)


@never_cache
@require_safe
@login_required
def report_sentences_page(request: BeaconRequest, slug: str, run_id: int) -> HttpResponse:
    """List the report's sentences: what supports each, and what can be said of it."""
    report = _report(request, slug, run_id)
    rows = sentence_rows.rows_of(report)
    wanted = request.GET.get("show", "")
    context: dict[str, Any] = {
        "report": report,
        "run": report.run,
        "topic": report.run.topic,
        "rows": [row for row in rows if wanted != "unsupported" or row.is_unsupported],
        "all_count": len(rows),
        "bad_count": sum(row.is_unsupported for row in rows),
        "wanted": wanted,
    }
    return render(request, "research/report_sentences.html", context)


@require_POST
@login_required
def sentence_check(request: BeaconRequest, slug: str, run_id: int, key: str) -> HttpResponse:
    """Note that the person checked a sentence themselves."""
    report = _report(request, slug, run_id)
    if correcting.check(report, _sentence(report, key), by=request.actor):
        undo = "undo:" + reverse("research:sentence-uncheck", args=[slug, run_id, key])
        said = _("Noted: you checked that sentence.")
        messages.success(request, said, extra_tags=undo)
    else:
        messages.info(request, _("You checked that sentence before."))
    return go_back(request, reverse("research:report-sentences", args=[slug, run_id]))


@require_POST
@login_required
def sentence_uncheck(request: BeaconRequest, slug: str, run_id: int, key: str) -> HttpResponse:
    """Take it back that the person checked a sentence."""
    report = _report(request, slug, run_id)
    if correcting.uncheck(report, key, by=request.actor):
        undo = "undo:" + reverse("research:sentence-check", args=[slug, run_id, key])
        messages.success(request, _("It is no longer noted as checked."), extra_tags=undo)
    else:
        messages.info(request, _("That sentence is not noted as checked."))
    return go_back(request, reverse("research:report-sentences", args=[slug, run_id]))


@never_cache
@require_http_methods(["GET", "POST"])
@login_required
def sentence_correct(request: BeaconRequest, slug: str, run_id: int, key: str) -> HttpResponse:
    """Say what is wrong with a sentence; its facts are shown before they change."""
    report = _report(request, slug, run_id)
    sentence = _sentence(report, key)
    facts = correcting.facts_of(report, sentence)
    form = SentenceForm(request.POST or None, facts=facts)
    if request.method == "POST" and form.is_valid():
        try:
            made = correcting.correct(
                report, sentence, facts=form.seen(), by=request.actor, **form.cleaned_data
            )
        except InvalidValue as exc:
            form.take(exc)
        except MemoryRefused as exc:
            form.add_error(None, str(exc))
        else:
            undo = "undo:" + reverse("research:correction-take-back", args=[made.pk])
            said = _("Corrected. Later runs of this topic are told.")
            messages.success(request, said, extra_tags=undo)
            return redirect(f"{reverse('research:run', args=[slug, run_id])}#s-{key}")
    standing = Correction.objects.filter(report=report, key=key).standing().first()
    context: dict[str, Any] = {
        "report": report,
        "run": report.run,
        "topic": report.run.topic,
        "sentence": sentence,
        "form": form,
        "standing": standing,
    }
    return render(request, "research/sentence_correct.html", context)


@require_safe
@login_required
def topic_corrections(request: BeaconRequest, slug: str) -> HttpResponse:
    """List all that the person corrected in the topic's reports."""
    mine = Topic.objects.of(request.user).live()
    topic = get_object_or_404(mine.select_related("owner"), slug=slug)
    rows = sentence_rows.corrections_of(topic)
    context = {"topic": topic, "rows": rows}
    return render(request, "research/topic_corrections.html", context)


@require_POST
@login_required
def correction_take_back(request: BeaconRequest, pk: uuid.UUID) -> HttpResponse:
    """Take back all that a correction did, in one press."""
    mine = Correction.objects.of(request.user).readable()
    related = ("report__run__topic__owner", "report__owner", "lesson")
    made = get_object_or_404(mine.select_related(*related), pk=pk)
    slug = made.report.run.topic.slug
    try:
        done = correcting.take_back(made, by=request.actor)
    except MemoryRefused as exc:
        return refused(request, str(exc))
    if done:
        messages.success(request, _("Taken back: facts, lesson and mark are as they were before."))
    else:
        messages.info(request, _("That correction was taken back before."))
    return go_back(request, reverse("research:topic-corrections", args=[slug]))
