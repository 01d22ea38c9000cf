"""Pages of one report: its sources, sentences, corrections and exports, and comparing two runs."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from typing import Any

from django import forms
from django.contrib import messages
from django.http import Http404, HttpResponse, QueryDict
from django.shortcuts import get_object_or_404, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.cache import never_cache
from django.views.decorators.vary import vary_on_headers

from beacon_site.text.cleaning import match_key, number_of
from beacon_site.web.http import BeaconRequest
from beacon_site.web.responses import (
    CleanTextField,
    RefusalErrorsMixin,
    SecretConfirmationMixin,
    redirect_back,
    refused,
    signed_in,
)
from memory.models import TopicFact
from memory.models.errors import MemoryRefused
from memory.pages.shared.undo import act, offer, undoes
from research.claims.quoting import NormalizedText, fold
from research.models import Correction, Hit, Report, Run
from research.pages import topic_list
from research.services.facts import correcting
from research.services.facts.correcting import MAX_WORDS, SeenFact
from research.services.reports import compare as comparing
from research.services.reports import exporting
from research.services.reports import page as report_page
from research.services.reports.delta_rows import Quote
from research.services.reports.page import sources_of
from research.services.runs.reporting import sentences as report_sentences
from research.services.runs.reporting.composing import EXTRACTIVE, EXTRACTIVE_MARKED
from research.services.runs.reporting.sentences import ReportSentence


class SentenceForm(SecretConfirmationMixin, RefusalErrorsMixin):
    """A correction of one sentence. `facts` came from it, each with its version.

    The sentence can be edited as it is, and the reason is optional. Without another sentence, the
    reason says what is wrong.
    """

    right = CleanTextField(
        label=gettext_lazy("Correct to"),
        required=False,
        max_length=MAX_WORDS,
        widget=forms.Textarea(attrs={"rows": 3, "data-focus": ""}),
    )
    wrong = CleanTextField(
        label=gettext_lazy("What’s wrong?"),
        required=False,
        max_length=MAX_WORDS,
        widget=forms.TextInput,
        help_text=gettext_lazy(
            "Optional if you correct the sentence. Later runs use your explanation."
        ),
    )

    def __init__(
        self, *args: Any, facts: Sequence[TopicFact], sentence: str = "", **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        self.initial["right"] = sentence
        self.facts = facts
        self.sentence = sentence
        if len(facts) == 1:
            self.fields["right"].help_text = _(
                "Replaces the fact. If you leave this empty, the fact is marked as wrong."
            )
        elif facts:
            self.fields["right"].help_text = _(
                "Replaces the first fact selected below. If you leave this empty, the selected facts are marked as wrong."
            )

    def clean(self) -> dict[str, Any]:
        """Require a change. A sentence that stays as it is isn't its own correction."""
        words: dict[str, Any] = super().clean() or {}
        right, wrong = words.get("right", ""), words.get("wrong", "")
        if match_key(right) == match_key(self.sentence):
            words["right"] = right = ""
        if not right and not wrong and not self.errors:
            self.add_error(
                "wrong", _("Explain what’s wrong with the sentence, or correct it above.")
            )
        return words

    def rows(self) -> list[tuple[TopicFact, bool]]:
        """Return the facts, each with whether it is selected."""
        chosen = set(self._chosen()) if self.is_bound else None
        return [(fact, chosen is None or self._value(fact) in chosen) for fact in self.facts]

    def _chosen(self) -> list[str]:
        return self.data.getlist("fact") if isinstance(self.data, QueryDict) else []

    @staticmethod
    def _value(fact: TopicFact) -> str:
        return f"{fact.pk}:{fact.version}"

    def seen(self) -> list[SeenFact]:
        """Return the selected facts with the versions that were shown, without facts from
        elsewhere.
        """
        versions = {}
        for value in self._chosen():
            key, _colon, version = value.partition(":")
            if (number := number_of(version)) is not None:
                versions[key] = number
        facts = [fact for fact in self.facts if str(fact.pk) in versions]
        return [(fact, versions[str(fact.pk)]) for fact in facts]


# --- text of a source ---


def source_page(report: Report, n: int) -> dict[str, Any] | None:
    """Return source `n` of a report as it was read, or None: one query.

    Each quote has its number, and whether it was found in the text. Each piece of the text has the
    number of its quote, or 0 for none.
    """
    numbered = zip(sources_of(report), report.sources, strict=True)
    found = [(row, stored) for row, stored in numbered if row.n == n]
    if not found:
        return None
    row, stored = found[0]
    hits = Hit.objects.filter(run=report.run_id, link=stored.get("link", ""))
    hit = hits.select_related("content_item").first()
    item = hit.content_item if hit else None
    folded = NormalizedText(item.content if item else "")
    quotes, spans = [], []
    kept = zip(row.quotes, stored.get("quotes", []), strict=True)
    for number, (quote, where) in enumerate(kept, start=1):
        is_there = quote.found and item is not None and item.content
        span = _span_of(quote, where, folded) if is_there else None
        if span is not None:
            spans.append((span, number))
        quotes.append((number, quote, span is not None))
    spans.sort(key=lambda one: (one[0].start, one[0].stop))
    pieces = list(_pieces(item.content, spans)) if item else []
    return {"source": row, "item": item, "hit": hit, "quotes": quotes, "pieces": pieces}


def _span_of(quote: Quote, kept: dict[str, Any], folded: NormalizedText) -> slice | None:
    """Return a quote's position: the stored one, or where the text is found now."""
    start, end = kept.get("start", -1), kept.get("end", -1)
    is_noted = isinstance(start, int) and isinstance(end, int) and 0 <= start < end
    if is_noted and fold(folded.stored[start:end]) == fold(quote.quote):
        return slice(start, end)
    return folded.find(quote.quote)


def _pieces(content: str, spans: list[tuple[slice, int]]) -> Iterator[tuple[str, int]]:
    """Yield the text in pieces. If quotes overlap, the later one begins where the earlier ends."""
    at = 0
    for span, number in spans:
        start = max(at, span.start)
        if start > at:
            yield content[at:start], 0
        # A quote inside another keeps an empty mark as a target for links.
        yield content[start : max(start, span.stop)], number
        at = max(at, span.stop)
    if at < len(content):
        yield content[at:], 0


# --- compare two runs ---


@signed_in("GET", "HEAD")
@vary_on_headers("HX-Request")
def compare(request: BeaconRequest, slug: str) -> HttpResponse:
    """Compare two runs of a topic. Over htmx only the comparison."""
    topic = topic_list.topic_or_404(request, slug)
    context = comparing.context(topic, request.GET)
    if request.htmx:
        return render(request, "research/_compare.html", context | {"is_swap": True})
    context |= {"tab": "runs", "head": topic_list.head_of(topic)}
    return render(request, "research/compare.html", context)


# --- export ---


@never_cache
@signed_in("GET")
def run_export(request: BeaconRequest, slug: str, run_id: int, kind: str) -> HttpResponse:
    """Download a saved run as `kind`. Other runs and unknown formats get an error."""
    mine = Run.objects.in_topic(request.user, slug)
    run: Run = get_object_or_404(mine.select_related("topic__owner", "report"), pk=run_id)
    if kind not in exporting.KINDS:
        why = _("Unknown export format “%(kind)s”. Available formats: %(kinds)s.")
        message = why % {"kind": kind, "kinds": ", ".join(exporting.KINDS)}
        return render(request, "404.html", {"why": message}, status=404)
    if run.number is None:
        why = _("This run is %(status)s and has no report. Only a saved run can be exported.")
        status = run.get_status_display()
        return refused(request, why % {"status": status})
    media_type, write = exporting.KINDS[kind]
    answer = HttpResponse(write(run), content_type=media_type)
    stem = f"{run.topic.slug}-run-{run.number}"
    answer["Content-Disposition"] = f'attachment; filename="{stem}-{kind}"'
    return answer


# --- sentences ---


def _report(request: BeaconRequest, slug: str, run_id: int) -> Report:
    mine = Run.objects.for_user(request.user).filter(topic__slug=slug, topic__trashed_at=None)
    found = mine.exclude(report=None).filter(report__trashed_at=None)
    run = get_object_or_404(found.select_related("report__owner", "topic__owner"), pk=run_id)
    report: Report = run.report
    return report


def _sentence(report: Report, key: str) -> ReportSentence:
    found = report_sentences.sentence_of(report, key)
    if found is None:
        raise Http404(_("This sentence isn’t in the report."))
    return found


@signed_in("GET", "HEAD")
def run_source(request: BeaconRequest, slug: str, run_id: int, n: int) -> HttpResponse:
    """Show the text of a source as it was read, with its quotes marked."""
    report = _report(request, slug, run_id)
    page = source_page(report, n)
    if page is None:
        raise Http404(_("This source isn’t in the report."))
    context = {"report": report, "run": report.run, "topic": report.run.topic, "page": page}
    return render(request, "research/run_source.html", context)


@never_cache
@signed_in("GET", "HEAD")
def report_sentences_page(request: BeaconRequest, slug: str, run_id: int) -> HttpResponse:
    """List the report's sentences, with their support and actions."""
    report = _report(request, slug, run_id)
    notes = {str(EXTRACTIVE), str(EXTRACTIVE_MARKED)}
    rows = [row for row in report_page.sentence_rows(report) if row["sentence"].text not in notes]
    wanted = request.GET.get("show", "")
    left = [row["sentence"].key for row in rows if not (row["is_checked"] or row["is_corrected"])]
    context: dict[str, Any] = {
        "report": report,
        "run": report.run,
        "topic": report.run.topic,
        "rows": [row for row in rows if wanted != "unsupported" or row["is_unsupported"]],
        "all_count": len(rows),
        "quoted": sum(row["quote"] is not None and row["quote"].is_verified for row in rows),
        "bad_count": sum(row["is_unsupported"] for row in rows),
        "checked": len(rows) - len(left),
        "next_key": left[0] if left else "",
        "wanted": wanted,
    }
    return render(request, "research/report_sentences.html", context)


@act("sentence-check")
def sentence_check(request: BeaconRequest, slug: str, run_id: int, key: str) -> str:
    """Record that the person verified a sentence."""
    report = _report(request, slug, run_id)
    if correcting.check(report, _sentence(report, key), by=request.actor):
        undo = offer(request, "sentence-uncheck", slug=slug, run_id=run_id, key=key)
        messages.success(request, _("Sentence marked as verified."), extra_tags=undo)
    else:
        messages.info(request, _("You’ve already verified this sentence."))
    return reverse("research:report-sentences", args=[slug, run_id])


@act("sentence-uncheck")
def sentence_uncheck(request: BeaconRequest, slug: str, run_id: int, key: str) -> str:
    """Remove the person's verification of a sentence."""
    report = _report(request, slug, run_id)
    if correcting.uncheck(report, key, by=request.actor):
        undo = offer(request, "sentence-check", slug=slug, run_id=run_id, key=key)
        messages.success(request, _("Verification removed."), extra_tags=undo)
    else:
        messages.info(request, _("This sentence isn’t marked as verified."))
    return reverse("research:report-sentences", args=[slug, run_id])


@never_cache
@signed_in("GET", "POST")
@vary_on_headers("HX-Request")
def sentence_correct(request: BeaconRequest, slug: str, run_id: int, key: str) -> HttpResponse:
    """Correct a sentence, in its place or on its own page. Its facts are shown before they change."""
    report = _report(request, slug, run_id)
    sentence = _sentence(report, key)
    facts = correcting.facts_of(report, sentence)
    form = SentenceForm(
        request.POST or None, facts=facts, sentence=sentence.text, auto_id=f"correct-{key}-%s"
    )
    context: dict[str, Any] = {
        "report": report,
        "run": report.run,
        "topic": report.run.topic,
        "sentence": sentence,
        "form": form,
    }
    if request.method == "POST" and form.is_valid():
        try:
            made = correcting.correct(
                report, sentence, facts=form.seen(), by=request.actor, **form.cleaned_data
            )
        except MemoryRefused as exc:
            form.take(exc)
        else:
            undo = offer(request, "correction", key=made.pk)
            message = _("Sentence corrected. Later runs will use your correction.")
            messages.success(request, message, extra_tags=undo)
            if request.htmx:
                return render(request, "research/_sentence_corrected.html", {"made": made})
            return redirect_back(request, f"{reverse('research:run', args=[slug, run_id])}#s-{key}")
    context["standing"] = Correction.objects.filter(report=report, key=key).standing().first()
    template = "_sentence_correct" if request.htmx else "sentence_correct"
    return render(request, f"research/{template}.html", context)


@signed_in("GET", "HEAD")
def topic_corrections(request: BeaconRequest, slug: str) -> HttpResponse:
    """List all corrections to the topic's reports."""
    topic = topic_list.topic_or_404(request, slug)
    rows = report_page.corrections_of(topic)
    context = {"topic": topic, "rows": rows, "tab": "runs", "head": topic_list.head_of(topic)}
    return render(request, "research/topic_corrections.html", context)


@undoes("correction", key=uuid.UUID)
def _undo_correction(request: BeaconRequest, key: uuid.UUID) -> str:
    """Undo everything a correction did."""
    mine = Correction.objects.for_user(request.user).readable()
    related = ("report__run__topic__owner", "report__owner", "lesson")
    made = get_object_or_404(mine.select_related(*related), pk=key)
    if correcting.undo_change(made, by=request.actor):
        messages.success(request, _("Correction undone."))
    else:
        messages.info(request, _("This correction has already been undone."))
    return reverse("research:topic-corrections", args=[made.report.run.topic.slug])
