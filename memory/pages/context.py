"""The Context page: what an agent would get now, layer by layer, with sizes and reasons."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.contrib.auth.decorators import login_required
from django.http import HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_safe
from django.views.decorators.vary import vary_on_headers

from beacon_site.http import BeaconRequest
from beacon_site.llm.tokens import Size, counted, how_in_words
from beacon_site.text.cleaning import clean, in_brief, shorten
from memory.context.layers import (
    CHARACTERS,
    MOST_CHARACTERS,
    TOKENS,
    Context,
    Layer,
    LeftOut,
    build_context,
)
from memory.context.topic_block import TopicBlock, topic_block
from memory.files.reading import size_in_words
from memory.llm import connections
from memory.models import Note, Sensitivity, Topic, User
from memory.topics.memory import KnownFact
from memory.web.as_of import at_a_date

MOST_MESSAGE = 10_000  # characters of a message in a URL
MOST_BUDGET = 1_000_000
USUAL = {CHARACTERS: MOST_CHARACTERS, TOKENS: MOST_CHARACTERS // 4}
UNITS = {CHARACTERS: gettext_lazy("characters"), TOKENS: gettext_lazy("tokens")}
OPEN = (
    "rules",
    "summaries",
)  # layers that are unfolded at first, because they depend on the message
LONG = 280  # characters of a line that is shown unfolded
_MARK = re.compile(r"^- \[note:[0-9a-f-]{36}\] ")  # the mark by which a model cites a note


@dataclass(frozen=True, slots=True)
class Options:
    """The page's options from its URL; `problems` are messages about invalid ones."""

    message: str = ""
    topic: str = ""
    most: int = MOST_CHARACTERS
    unit: str = CHARACTERS
    budget: str = ""  # as typed
    problems: tuple[str, ...] = ()

    @classmethod
    def of(cls, query: Any) -> Options:
        """Read them from a query string."""
        problems = []
        message = clean(query.get("message", ""))[0].strip()
        if len(message) > MOST_MESSAGE:
            told = {"most": f"{MOST_MESSAGE:,}", "have": f"{len(message):,}"}
            why = _("Only the first %(most)s of %(have)s characters of the message are used.")
            problems.append(why % told)
        unit = query.get("unit", "")
        unit = unit if unit in UNITS else CHARACTERS
        typed = clean(query.get("budget", ""))[0].strip()[:20]
        most = _budget(typed, USUAL[unit])
        if most is None:
            most = USUAL[unit]
            why = _(
                "Enter a whole number from 1 to %(most)s as the budget, not “%(typed)s”. Beacon used %(used)s instead."
            )
            told = {"typed": typed, "most": f"{MOST_BUDGET:,}", "used": f"{most:,}"}
            problems.append(why % told)
        slug = clean(query.get("topic", ""))[0].strip()[:100]
        return cls(message[:MOST_MESSAGE], slug, most, unit, typed, tuple(problems))

    @property
    def unit_words(self) -> str:
        """Return the unit of the budget in words."""
        return str(UNITS[self.unit])


def _budget(typed: str, usual: int) -> int | None:
    """Return the typed number, the default if there is none, None if it is invalid."""
    digits = re.sub(r"[,.\s_](?=\d{3}(?!\d))", "", typed)
    if not typed:
        return usual
    number = int(digits) if digits.isascii() and digits.isdecimal() else 0
    return number if 1 <= number <= MOST_BUDGET else None


@dataclass(frozen=True, slots=True)
class Line:
    """A record that is included or left out: its words, the reason, and its pages."""

    text: str
    why: str
    url: str = ""
    edit_url: str = ""
    is_outside: bool = False

    @property
    def is_long(self) -> bool:
        """Whether it is shown folded."""
        return len(self.text) > LONG or self.text.count("\n") > 3

    @property
    def beginning(self) -> str:
        """Return the first words of a folded line."""
        return in_brief(self.text, LONG // 2)


@dataclass(slots=True)
class Part:
    """A layer, the list of files, or the topic's block."""

    name: str
    title: str
    size: Size
    text: str
    lines: list[Line] = field(default_factory=list)
    left_out: list[Line] = field(default_factory=list)
    start: str = "0"  # its offset in percent, as text because SVG has no decimal comma
    percent: str = "0"  # its share of the whole, likewise
    write_url: str = ""  # where a person can write what is missing here

    @property
    def is_open(self) -> bool:
        """Whether it is unfolded at first."""
        return self.name in OPEN


@dataclass(frozen=True, slots=True)
class Preview:
    """Everything the page shows of one context."""

    layers: list[Part]
    index: Part
    topic: Part | None
    system: Size
    used: int  # of the budget, in its unit
    wanted: Options
    text: str
    problems: list[str]

    @property
    def over(self) -> int:
        """Return how far the layers exceed the budget: identity and machine are always included."""
        return max(0, self.used - self.wanted.most)

    @property
    def total(self) -> Size:
        """Return the size of the system prompt and the list of files together."""
        return self.system + self.index.size

    @property
    def used_percent(self) -> str:
        """Return the used part of the budget in percent."""
        return f"{min(100.0, 100 * self.used / self.wanted.most):.2f}"


def preview(user: User, wanted: Options) -> Preview:
    """Return what the agent would get; a person's preview doesn't count as a use."""
    problems = list(wanted.problems)
    topic = Topic.objects.of(user).live().filter(slug=wanted.topic).first()
    if wanted.topic and topic is None:
        why = _("There’s no topic “%(topic)s”. This is the context without one.")
        problems.append(why % {"topic": shorten(wanted.topic, 60)})
    built = build_context(
        user, message=wanted.message, topic=topic, most=wanted.most, unit=wanted.unit
    )
    block = None
    if topic is not None:
        topic.owner = user
        told = topic_block(topic)
        problems += [told.problem] if told.problem else []
        block = _topic_part(topic, told)
    layers, index = [_layer_part(layer) for layer in built.layers], _index_part(built)
    _share(layers)
    system = counted(built.system)
    used = system.tokens if wanted.unit == TOKENS else len(built.system)
    return Preview(layers, index, block, system, used, wanted, built.text, problems)


def text_of(user: User, wanted: Options) -> str:
    """Return the context as text: the system prompt, the list of files, the topic's block."""
    shown = preview(user, wanted)
    return "\n\n".join([shown.text, *([shown.topic.text] if shown.topic else [])]) + "\n"


def topics_of(user: User) -> list[tuple[str, str]]:
    """Return the topics to choose from: slug and title, newest first."""
    rows = Topic.objects.of(user).live().order_by("-created")[:200]
    return list(rows.values_list("slug", "title"))


# --- parts ---


def _layer_part(layer: Layer) -> Part:
    part = Part(layer.name, _title(layer), layer.size, layer.text)
    part.lines = [
        Line(_shown(line.text), line.why, *_addresses(line.record), _is_outside(line.record))
        for line in layer.lines
    ]
    part.left_out = _left_out(layer.left_out)
    if not layer.lines and not layer.left_out:
        part.write_url = _where_to_write(layer.name)
    return part


def _title(layer: Layer) -> str:
    """Return the layer's name for people; its heading in the prompt is for the model."""
    named = {
        "agent": _("Agent"), "soul": _("Soul"), "environment": _("Environment"),
        "user": _("User"), "rules": _("Rules"), "summaries": _("Summaries"),
    }  # fmt: skip
    return named[layer.name]


def _shown(text: str) -> str:
    """Return a line without its citation mark and list indent."""
    return _MARK.sub("", text).replace("\n  ", "\n")


def _left_out(gone: Iterable[LeftOut]) -> list[Line]:
    return [Line(one.title, one.why, *_addresses(one.record)) for one in gone]


def _addresses(record: Any) -> tuple[str, str]:
    """Return the URLs of a record's page and of the page that edits it."""
    if not isinstance(record, Note):
        return "", ""
    page = record.get_absolute_url()
    if record.kind in Note.IDENTITY and _own_page(record.kind):
        return page, _own_page(record.kind)
    return page, reverse("memory:note-edit", args=[record.pk])


def _own_page(kind: str) -> str:
    """Return the page in Settings for the soul or the persona."""
    names = {Note.Kind.SOUL.value: "soul", Note.Kind.AGENT.value: "persona"}
    return reverse(f"memory:{names[kind]}") if kind in names else ""


def _where_to_write(name: str) -> str:
    kinds = {"rules": "rule", "summaries": "summary", "user": "user"}
    if name in kinds:
        return f"{reverse('memory:note-new')}?kind={kinds[name]}"
    return _own_page(name)


def _is_outside(record: Any) -> bool:
    return record is not None and record.trust not in ("owner", "agent")


def _index_part(built: Context) -> Part:
    part = Part("index", _("List of files"), counted(built.index), built.index)
    for file in built.files:
        edit = reverse("memory:file-edit", args=[file.path])
        addresses = file.get_absolute_url(), edit
        if file.sensitivity == Sensitivity.SENSITIVE:
            why = _("sensitive, so even its name is left out")
            part.left_out.append(Line(file.path, why, *addresses))
        else:
            text = f"{file.path} ({size_in_words(file.size)}): {file.summary}"
            part.lines.append(Line(text, _("always"), *addresses))
    return part


def _known_fact(fact: KnownFact) -> str:
    """Return why a fact is included, and if it's stale, when it was last checked."""
    if not fact.stale_days:
        return _("known fact")
    return _("known fact, stale: %(age)s") % {"age": fact.age_words}


def _topic_part(topic: Topic, block: TopicBlock) -> Part:
    part = Part("topic", topic.title, counted(block.text), block.text)
    page = reverse("research:topic", args=[topic.slug])
    if block.known:
        if block.known.summary:
            part.lines.append(Line(block.known.summary, _("the last report’s summary"), page))
        part.lines += [Line(fact.text, _known_fact(fact), page) for fact in block.known.facts]
        part.lines += [
            Line(text, _("you marked it as wrong, so it isn’t repeated"), page)
            for text in block.known.struck
        ]
    for seen in block.observations:
        edit = reverse("memory:observation-edit", args=[seen.pk])
        why = _("observation related to the topic")
        words = shorten(seen.content, 400)
        part.lines.append(Line(words, why, seen.get_absolute_url(), edit, _is_outside(seen)))
    return part


def _share(layers: Sequence[Part]) -> None:
    """Set each layer's share of the total and its offset, in percent."""
    whole = sum(part.size.bytes for part in layers) or 1
    before = 0
    for part in layers:
        part.start = f"{100 * before / whole:.2f}"
        part.percent = f"{100 * part.size.bytes / whole:.2f}"
        before += part.size.bytes


# --- pages ---


@require_safe
@login_required
@vary_on_headers("HX-Request")
@at_a_date
def context(request: BeaconRequest) -> HttpResponse:
    """Show the six layers for a message, a topic and a budget; over htmx only the layers."""
    wanted = Options.of(request.GET)
    shown: dict[str, Any] = {
        "wanted": wanted,
        "preview": preview(request.user, wanted),
        "counted": how_in_words(),
        "address": request.GET.urlencode(),
        "has_model": connections.language_model() is not None,
    }
    if request.htmx and request.htmx.target == "context":
        return render(request, "memory/_context.html", shown)
    shown |= {
        "units": UNITS,
        "most_message": MOST_MESSAGE,
        "topics": topics_of(request.user),
    }
    return render(request, "memory/context.html", shown)


@require_safe
@login_required
@at_a_date
def context_text(request: BeaconRequest) -> HttpResponse:
    """Send the context as a text file."""
    text = text_of(request.user, Options.of(request.GET))
    answer = HttpResponse(text, content_type="text/plain; charset=utf-8")
    answer["Content-Disposition"] = 'attachment; filename="beacon-context.txt"'
    return answer
