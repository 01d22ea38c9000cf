"""Pages of sources and rules: a topic's sources, rules for domains and pages, and standing rules."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import messages
from django.core.exceptions import ValidationError
from django.http import HttpResponse, StreamingHttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext
from django.views.decorators.vary import vary_on_headers

from beacon_site.text.cleaning import shorten, text_param
from beacon_site.text.messages import grouped
from beacon_site.web.http import BeaconRequest
from beacon_site.web.responses import CleanTextField, redirect_back, signed_in
from memory.models import SeenUrl, Topic, as_of
from memory.models.errors import InvalidValue, MemoryRefused
from memory.pages import trash
from memory.pages.shared import filter_bar
from memory.pages.shared.as_of import at_a_date
from memory.pages.shared.filter_bar import Choice, Facet, FilterBar
from memory.pages.shared.undo import act, offer, undoes
from research.models.reports import link_of
from research.models.topics import rules_with_dates
from research.pages import topic_list
from research.services.runs.search import reading
from research.services.sources import figures as source_desk
from research.services.sources import figures as source_rules
from research.services.sources.figures import (
    ACT_WORDS,
    ALL,
    BY,
    NONE,
    STATE_LABELS,
    TOPIC,
    Act,
    SourcesFilter,
)
from research.services.topics.settings import standing_rules
from research.services.topics.settings.standing_rules import CHECK, STOP, Kind

# label, help text, message if empty
_WORDS: dict[Kind, tuple[Promise, Promise, Promise]] = {
    CHECK: (
        gettext_lazy("Words to search for, or a URL"),
        gettext_lazy(
            "Every run searches for these words or reads this URL, in addition to its own plan. To read only part of a page, add “| css: main .prices” or “| heading: Pricing” after its URL."
        ),
        gettext_lazy("Enter words to search for, or the URL of a page."),
    ),
    STOP: (
        gettext_lazy("A domain or page URL"),
        gettext_lazy("Enter a domain such as example.org. Subdomains are also skipped."),
        gettext_lazy("Enter a domain, such as example.org, or a page URL."),
    ),
}


class RuleForm(forms.Form):
    """One line: something every run checks, or something runs never read."""

    rule = CleanTextField(widget=forms.TextInput(attrs={"autocomplete": "off", "dir": "auto"}))

    def __init__(self, kind: Kind, data: Any = None) -> None:
        super().__init__(data, auto_id=f"{kind}-%s")
        self.kind = kind
        field = self.fields["rule"]
        label, help_text, missing = _WORDS[kind]
        field.label, field.help_text = str(label), str(help_text)
        field.error_messages["required"] = str(missing)

    def clean_rule(self) -> str:
        """Return the rule in its stored form. Raises ValidationError."""
        take = standing_rules.check_from if self.kind == CHECK else standing_rules.place_from
        try:
            return take(self.cleaned_data["rule"])
        except InvalidValue as exc:
            raise ValidationError(str(exc)) from exc


# --- standing rules on a topic's pages ---


def rules_of(topic: Any, form: RuleForm | None = None) -> dict[str, Any]:
    """Return the rules of a topic from `topics_of`, with `form` if the person typed in it."""
    settings = topic.settings
    return {
        "checks": [_row_of(CHECK, rule) for rule in settings.always_check],
        "places": [_row_of(STOP, rule) for rule in standing_rules.places_of(settings)],
        "check_form": form if form is not None and form.kind == CHECK else RuleForm(CHECK),
        "stop_form": form if form is not None and form.kind == STOP else RuleForm(STOP),
        "most": standing_rules.MAX_CHECKS,
        "is_full": len(settings.always_check) >= standing_rules.MAX_CHECKS,
    }


def _row_of(kind: Kind, rule: str) -> dict[str, Any]:
    """Return a rule as stored and as shown. The link is empty for words and domains."""
    link = link_of(standing_rules.address_of(rule))
    return {"kind": kind, "rule": rule, "shown": standing_rules.readable_rule(rule), "link": link}


# --- a topic's sources ---


def _desk(slug: str) -> str:
    return reverse("research:topic-sources", args=[slug])


@signed_in("GET", "HEAD")
@vary_on_headers("HX-Request")
@at_a_date
def topic_sources(request: BeaconRequest, slug: str) -> HttpResponse:
    """Show the topic's sources by domain or by page. Over htmx only the list."""
    return _show(request, topic_list.topic_or_404(request, slug))


def _show(request: BeaconRequest, topic: Any, **more: Any) -> HttpResponse:
    # Rules have no history.
    is_past = as_of.current() is not None
    states = [
        Choice(*one) for one in STATE_LABELS.items() if one[0] and not (is_past and one[0] in Act)
    ]
    facets = [
        Facet("by", _("Group by"), [Choice(*one) for one in BY.items() if one[0] != "domain"], any_label=BY["domain"], usual="domain"),
        Facet("state", _("State"), states, any_label=_("All")),
    ]  # fmt: skip
    if domain := text_param(request.GET, "domain", 253):
        facets.append(Facet("domain", _("Domain"), [Choice(domain, domain)], any_label=_("All")))
    query = filter_bar.read(request.GET, facets)
    if domain and "by" not in query:
        query["by"] = "page"
    filters = SourcesFilter.of(query)
    listing, total, rules = source_desk.page(topic, filters, cursor=request.GET.get("cursor", ""))
    context: dict[str, Any] = {
        "topic": topic,
        "tab": "sources",
        "head": topic_list.head_of(topic),
        "wanted": filters,
        "bar": FilterBar(
            reverse("research:topic-sources", args=[topic.slug]), "sources", query,
            label=_("Search sources"), placeholder=_("Search titles and URLs"), facets=facets,
            count=_counted(filters, total),
        ),
        "rows": listing.rows,
        "next_cursor": listing.next_cursor,
        "total": total,
        "columns": (columns := source_desk.columns(filters, listing.rows)),
        "shown": {column["name"] for column in columns},
        "name_query": filters.sorted_by("name"),
        "seen_count": SeenUrl.objects.filter(topic=topic).count(),
        "elsewhere": [
            (place, act, ACT_WORDS[Act(act)])
            for place, act in ([] if is_past else source_desk.not_met(rules, listing.rows))
        ],
    }  # fmt: skip
    template = "_topic_sources" if request.htmx else "topic_sources"
    return render(request, f"research/{template}.html", context | more)


def _counted(filters: SourcesFilter, total: int) -> str:
    """Return how many rows the list has."""
    if filters.by == "domain":
        words = ngettext("%(n)s domain", "%(n)s domains", total)
    else:
        words = ngettext("%(n)s page", "%(n)s pages", total)
    return words % {"n": grouped(total)}


@signed_in("GET", "HEAD")
@at_a_date
def sources_export(request: BeaconRequest, slug: str) -> StreamingHttpResponse:
    """Download the filtered and sorted list as CSV."""
    topic, wanted = topic_list.topic_or_404(request, slug), SourcesFilter.of(request.GET)
    lines = source_desk.as_csv(topic, wanted)
    if request.date.is_past:  # a stream is sent after the view, which is then in the present
        lines = iter(list(lines))
    pieces = (line.encode() for line in lines)
    response = StreamingHttpResponse(pieces, content_type="text/csv; charset=utf-8; header=present")
    response["Content-Disposition"] = f'attachment; filename="{topic.slug}-sources.csv"'
    return response


# --- actions ---


@act("source-rule")
def source_act(
    request: BeaconRequest, slug: str, do: str = "", expected: str = ""
) -> str | HttpResponse:
    """Block, boost or mute a place, or clear its rule: `do` is `act scope place`.

    An undo names the rule that it expects. For a site that isn't in the list, the person types the place;
    errors are shown next to it.
    """
    topic = topic_list.topic_or_404(request, slug)
    asked = do or request.POST.get("do", "")
    how, scope, place = (*asked.split(" ", 2), "", "")[:3]
    typed = "" if asked else request.POST.get("place", "")[:3000]
    if typed:
        how, scope, place = request.POST.get("rule", ""), TOPIC, typed
    if scope not in (TOPIC, ALL):
        raise InvalidValue(_("Choose whether this applies to this topic or to all topics."))
    try:
        place, before = source_rules.set_rule(topic, place, how, scope=scope, by=request.actor)
    except MemoryRefused as exc:
        if not typed:
            raise
        return _show(request, topic, place=typed, rule=how, place_error=str(exc))
    _check_unchanged(before, expected)
    _report_rule(request, place, (before, how), scope, slug)
    return _desk(slug)


def _check_unchanged(before: str, expected: str) -> None:
    """Raise InvalidValue, which rolls an undo back, if the rule had changed before it."""
    if expected and before != expected:
        raise InvalidValue(
            _("This rule has changed since then, so your change couldn’t be undone.")
        )


def _report_rule(
    request: BeaconRequest, place: str, acts: tuple[str, str], scope: str, slug: str
) -> None:
    """Confirm what changes from the next run, with an undo. `acts` are the rules before and now."""
    before, act = acts
    shown = {"place": shorten(standing_rules.readable_rule(place), 120)}
    if act == before:
        messages.info(request, _("%(place)s already has this rule.") % shown)
        return
    text = {
        Act.BLOCK: _("From the next run, %(place)s won’t be read or cited."),
        Act.BOOST: _("From the next run, results from %(place)s are ranked first."),
        Act.MUTE: _(
            "From the next run, Beacon will read %(place)s, but changes there won’t trigger notifications by themselves."
        ),
        NONE: _("Rule for %(place)s removed. This applies from the next run."),
    }[act]
    if scope == ALL:
        text += " " + _("The rule applies to all topics.")
    back = f"{before} {scope} {place}"
    undo = offer(request, "source-rule", slug=slug, do=back, expected=act)
    messages.success(request, text % shown, extra_tags=undo)


@act("url-forget")
def source_forget_url(request: BeaconRequest, slug: str) -> str:
    """Forget that a URL was seen, so a search can return it as new."""
    line = trash.forget_url(
        topic_list.topic_or_404(request, slug), request.POST.get("url", ""), by=request.actor
    )
    undo = offer(request, "url-forgotten", slug=slug, line=line.pk)
    words = _("URL forgotten. %(url)s can appear as new again. Facts from this page are kept.")
    messages.success(request, words % {"url": shorten(line.label, 120)}, extra_tags=undo)
    return _desk(slug)


@undoes("url-forgotten")
def _remember_url(request: BeaconRequest, slug: str, line: int) -> str:
    url = trash.remember_url(topic_list.topic_or_404(request, slug), line, by=request.actor)
    messages.success(request, _("Undone. %(url)s is marked as seen.") % {"url": shorten(url, 120)})
    return _desk(slug)


@act("read-next")
def read_next(request: BeaconRequest, slug: str, address: str = "") -> str | HttpResponse:
    """Have the next run read a page. Errors are shown next to the typed text."""
    topic = topic_list.topic_or_404(request, slug)
    typed = request.POST.get("address", "")[:3000]
    try:
        page, is_new = reading.add(topic, address or typed, by=request.actor)
    except MemoryRefused as exc:
        if address:
            raise
        return _show(request, topic, address=typed, address_error=str(exc))
    if is_new:
        undo = offer(request, "read-next-not", slug=slug, address=page)
        words = _("The next run will read “%(page)s”.")
        messages.success(request, words % {"page": shorten(page, 120)}, extra_tags=undo)
    else:
        messages.info(request, _("This page is already on the next run’s reading list."))
    return _desk(slug)


@act("read-next-not")
def read_next_not(request: BeaconRequest, slug: str, address: str = "") -> str:
    """Remove a page from the next run's reading list."""
    topic = topic_list.topic_or_404(request, slug)
    address = address or request.POST.get("address", "")
    if reading.remove(topic, address, by=request.actor):
        undo = offer(request, "read-next", slug=slug, address=address)
        messages.success(request, _("Removed from the next run’s reading list."), extra_tags=undo)
    else:
        messages.info(request, _("This page isn’t on the next run’s reading list."))
    return _desk(slug)


# --- all topics ---


@signed_in("GET", "POST")
def source_rules_page(request: BeaconRequest) -> HttpResponse:
    """Show the source rules for all topics. A POST adds or removes one."""
    place, act, error = request.POST.get("place", ""), request.POST.get("act", ""), ""
    if request.method == "POST":
        try:
            # The scope is all topics, so the topic only identifies the owner.
            whose = Topic(owner=request.user)
            stored, before = source_rules.set_rule(whose, place, act, scope=ALL, by=request.actor)
        except MemoryRefused as exc:
            error = str(exc)
        else:
            _say_of_all(request, stored, before, act)
            return redirect("research:source-rules")
    dated = rules_with_dates(request.user.pk)
    rules = [
        {
            "place": one,
            "shown": standing_rules.readable_rule(one),
            "act": how,
            "words": ACT_WORDS[Act(how)],
            "since": since,
        }
        for one, (how, since) in sorted(dated.items())
    ]
    context = {"rules": rules, "acts": Act.choices, "place": place, "act": act, "error": error}
    return render(request, "research/source_rules.html", context)


def _say_of_all(request: BeaconRequest, place: str, before: str, act: str) -> None:
    words = (
        _("Rule for %(place)s removed from all topics.")
        if act == NONE
        else _("Rule for %(place)s saved for all topics. It applies from the next run.")
    )
    undo = offer(request, "source-rule-everywhere", place=place, was=before, expected=act)
    shown = shorten(standing_rules.readable_rule(place), 120)
    messages.success(request, words % {"place": shown}, extra_tags=undo)


@undoes("source-rule-everywhere")
def _restore_rule(request: BeaconRequest, place: str, was: str, expected: str) -> str:
    whose = Topic(owner=request.user)
    place, before = source_rules.set_rule(whose, place, was, scope=ALL, by=request.actor)
    _check_unchanged(before, expected)
    _say_of_all(request, place, before, was)
    return reverse("research:source-rules")


# --- changing standing rules ---

_SHOWN = "rules"  # the id of the region with a topic's rules


def _kind(request: BeaconRequest, kind: str = "") -> Kind:
    return CHECK if (kind or request.POST.get("kind")) == CHECK else STOP


@signed_in("GET", "POST")
@vary_on_headers("HX-Request")
def topic_rules(request: BeaconRequest, slug: str) -> HttpResponse:
    """Show the topic's standing rules. A POST adds one."""
    if request.method != "POST":
        return _page(request, slug)
    topic = topic_list.topic_or_404(request, slug)
    form = RuleForm(_kind(request), request.POST)
    if form.is_valid():
        try:
            _add(request, topic, form.kind, form.cleaned_data["rule"])
        except MemoryRefused as exc:
            form.add_error("rule", str(exc))
        else:
            if request.htmx:
                return _page(request, slug)
            return redirect(f"{reverse('research:topic-facts', args=[slug])}#{_SHOWN}")
    return _page(request, slug, form)


def _page(request: BeaconRequest, slug: str, form: RuleForm | None = None) -> HttpResponse:
    topic = topic_list.topic_or_404(request, slug)  # the state after the action
    context = {"topic": topic, "tab": "sources", "rules": rules_of(topic, form)}
    if request.htmx:
        return render(request, "research/_rules.html", context)
    head = topic_list.head_of(topic)
    return render(request, "research/topic_rules.html", context | {"head": head})


@act("rule-add")
def rule_add(request: BeaconRequest, slug: str, kind: str = "", rule: str = "") -> HttpResponse:
    """Add a rule with one click, such as next to a result or a source."""
    topic = topic_list.topic_or_404(request, slug)
    _add(request, topic, _kind(request, kind), rule or request.POST.get("rule", ""))
    return _after(request, topic)


@act("rule-remove")
def rule_remove(request: BeaconRequest, slug: str, kind: str = "", rule: str = "") -> HttpResponse:
    """Remove a rule. Current runs still follow it."""
    topic, of = topic_list.topic_or_404(request, slug), _kind(request, kind)
    rule = rule or request.POST.get("rule", "")
    values = {"rule": standing_rules.readable_rule(rule)}
    if standing_rules.remove(topic, of, rule, by=request.actor):
        said = {
            CHECK: _("“%(rule)s” was removed from “Always include”."),
            STOP: _("Starting with the next run, Beacon can read “%(rule)s” again."),
        }
        undo = offer(request, "rule-add", slug=slug, kind=of, rule=rule)
        messages.success(request, said[of] % values, extra_tags=undo)
    else:
        messages.info(request, _("“%(rule)s” isn’t one of the topic’s rules.") % values)
    return _after(request, topic)


def _add(request: BeaconRequest, topic: Topic, kind: Kind, text: str) -> None:
    """Add the rule and confirm with an undo. Raises MemoryRefused."""
    rule, is_new = standing_rules.add(topic, kind, text, by=request.actor)
    values = {"rule": standing_rules.readable_rule(rule)}
    if not is_new:
        messages.info(request, _("“%(rule)s” is already one of the topic’s rules.") % values)
        return
    data = {
        CHECK: _("From the next run, “%(rule)s” is always included."),
        STOP: _("Starting with the next run, Beacon won’t read “%(rule)s”."),
    }
    undo = offer(request, "rule-remove", slug=topic.slug, kind=kind, rule=rule)
    messages.success(request, data[kind] % values, extra_tags=undo)


def _after(request: BeaconRequest, topic: Any) -> HttpResponse:
    """Show the rules if the page has them, otherwise only the toast."""
    if not request.htmx:
        return redirect_back(
            request, f"{reverse('research:topic-facts', args=[topic.slug])}#{_SHOWN}"
        )
    if request.htmx.target == _SHOWN:
        return _page(request, topic.slug)
    response = render(request, "_toasts.html")
    response["HX-Reswap"] = "none"
    return response
