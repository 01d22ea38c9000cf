"""Pages of Ask: conversations, their messages with tool calls and sources, and what was saved."""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from django import forms
from django.contrib import messages
from django.db.models import Count, Q
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext
from django.views.decorators.cache import never_cache

from beacon_site import health
from beacon_site.db.keyset import Page, page_of
from beacon_site.text import markdown
from beacon_site.text.cleaning import number_of, shorten
from beacon_site.text.dates import day_of
from beacon_site.text.markdown import numbered
from beacon_site.web.http import BeaconRequest
from beacon_site.web.responses import (
    CleanTextField,
    RefusalErrorsMixin,
    SecretConfirmationMixin,
    get_owned_or_404,
    redirect_to,
    signed_in,
)
from memory.agents.chat import conversation
from memory.agents.chat import end as conversation_end
from memory.agents.chat.conversation import MAX_TITLE_LENGTH
from memory.agents.chat.turn import RECALL
from memory.agents.reflection import shown_of
from memory.models import (
    Conflict,
    Message,
    Note,
    Observation,
    Reflection,
    Session,
    Topic,
    TopicFact,
    Trust,
    User,
)
from memory.models.errors import InvalidValue, MemoryRefused, StaleWrite
from memory.pages.ratings import RatingControl, controls_of
from memory.pages.records.record import TYPES
from memory.pages.shared.undo import toast_with_undo
from memory.services.llm import connections
from memory.services.observations.consolidation import source_of
from memory.services.search import ratings

SIZE = 20  # sessions per page
MAX_SHOWN = 60  # messages of a session; earlier ones are behind a link
MAX_LEFT = 20  # records of each kind that were saved from a session
EXAMPLES = 3
SHORT = 160  # characters of a passage that can be shown large


# --- list of sessions ---


def sessions(user: User, *, cursor: str = "") -> Page:
    """Return one page of the person's sessions, newest first, with the number of messages."""
    condition = Q(messages__is_index=False, messages__role="user")
    rows = Session.objects.for_user(user).live().annotate(asked=Count("messages", filter=condition))
    return page_of(rows, by="created", falling=True, cursor=cursor, size=SIZE)


def examples(user: User) -> list[str]:
    """Return example questions, about topics with something known."""
    known = Topic.objects.for_user(user).live().filter(archived_at=None, run_count__gt=0)
    topics = known.order_by("-last_run_at")
    titles = [shorten(topic.title, 60) for topic in topics[:EXAMPLES]]
    patterns = [
        _("What do we know about “%(topic)s”?"),
        _("What changed recently about “%(topic)s”?"),
        _("Which sources have covered “%(topic)s”?"),
    ]
    questions = [
        pattern % {"topic": title} for pattern, title in zip(patterns, titles, strict=False)
    ]
    usual = [
        _("What did we work on recently?"),
        _("What do you know about me?"),
        _("What rules do you follow?"),
    ]
    return [*questions, *usual][:EXAMPLES]


# --- one session ---


# A line of an answer by recall: the passage, and the mark of its record.
_FOUND = re.compile(r"- “(?P<said>.*)” \[(?P<mark>[^\]]+)\]")
_AUTOLINK = re.compile(r"<(https?://[^<>\s]+)>")


def _cite_card(
    cite: Mapping[str, str], fact: TopicFact | None, answered_at: datetime
) -> dict[str, Any]:
    """Return a source of an answer as it is shown; `quote` is empty if its title says the same.

    `fact` is the one that it cites, as it is now. `outdated` says if it has been marked as wrong or
    replaced since the answer.
    """
    outdated = ""
    if fact is not None and fact.state == TopicFact.State.STRUCK:
        outdated = fact.state_words
    elif (
        fact is not None
        and fact.state == TopicFact.State.RETIRED
        and fact.retired_as == TopicFact.RetiredAs.REPLACED
        and fact.updated > answered_at
    ):
        outdated = _("since replaced")
    quote = cite.get("quote", "")
    same = quote[:60].rstrip("…") == cite["title"][:60].rstrip("…")
    return {
        "title": cite["title"],
        "url": cite.get("url", ""),
        "words": _kind_words(cite["type"]),
        "quote": "" if same and len(quote) <= len(cite["title"]) + 1 else quote,
        "is_outside": cite.get("trust") not in (Trust.OWNER, Trust.AGENT),
        "site": fact.site if fact else "",
        "published_at": fact.published_at if fact else None,
        "outdated": outdated,
        "history_url": _history_of(cite, fact),
    }


def _kind_words(kind: str) -> str:
    kinds = {
        "note": _("note"),
        "observation": _("observation"),
        "fact": _("fact"),
        "report": _("report"),
        "section": _("section of a memory file"),
        "memoryfile": _("memory file"),
    }
    return kinds.get(kind, kind)


def _history_of(cite: Mapping[str, str], fact: TopicFact | None) -> str:
    """Return the history of what is cited: of the fact, also if a finding repeats it."""
    if fact is not None and fact.topic.trashed_at is None:
        return reverse("research:fact-history", args=[fact.topic.slug, fact.pk])
    if cite["type"] in TYPES and cite.get("id"):
        return reverse(f"memory:{cite['type']}-history", args=[cite["id"]])
    return ""


@dataclass(frozen=True, slots=True)
class MessageRow:
    """A message as it is shown."""

    message: Message
    html: SafeString
    calls: list[dict[str, Any]] = field(default_factory=list)
    cites: Sequence[Mapping[str, Any]] = ()
    rating: RatingControl | None = None
    disputes: Sequence[Conflict] = ()
    facts: Mapping[str, TopicFact] = field(default_factory=dict)  # by the id of what is cited

    @property
    def cards(self) -> list[dict[str, Any]]:
        """Return the sources of an answer, as they are shown, each with its number."""
        return [
            self._card(cite) | {"number": number} for number, cite in enumerate(self.cites, start=1)
        ]

    @property
    def sources(self) -> list[dict[str, Any]]:
        """Return the sources below an answer, in groups.

        Two that contradict each other are a group with their `conflict`, before the others.
        """
        cards, keys = self.cards, [cite.get("id", "") for cite in self.cites]
        groups: list[dict[str, Any]] = []
        taken: set[str] = set()
        for conflict in self.disputes:
            sides = set(_sides(conflict))
            if taken.isdisjoint(sides):
                both = [card for key, card in zip(keys, cards, strict=True) if key in sides]
                groups.append({"conflict": conflict, "cards": both})
                taken |= sides
        rest = [card for key, card in zip(keys, cards, strict=True) if key not in taken]
        return [*groups, {"conflict": None, "cards": rest}] if rest else groups

    def _card(self, cite: Mapping[str, str]) -> dict[str, Any]:
        return _cite_card(cite, self.facts.get(cite.get("id", "")), self.message.created)

    @property
    def found(self) -> list[dict[str, Any]]:
        """Return what recall found, best first, if that is the whole answer.

        Each group has `rows`: one passage with the `cards` of the records that say it, or two
        passages that contradict each other (`conflict`).
        """
        lines = self.message.content.splitlines() if self.message.by == RECALL else []
        passages = [match["said"] for line in lines if (match := _FOUND.fullmatch(line))]
        if not passages or not len(passages) == len(lines) == len(self.cites):
            return []
        groups: list[dict[str, Any]] = []
        group_of: dict[str, dict[str, Any]] = {}  # by the id of a record
        row_of: dict[str, dict[str, Any]] = {}  # by its passage
        for number, (said, cite) in enumerate(zip(passages, self.cites, strict=True), start=1):
            card = self._card(cite) | {"number": number}
            if said[:60].rstrip("…") == card["title"][:60].rstrip("…"):
                card["title"] = card["words"]
            pair = next((one for one in self.disputes if cite["id"] in _sides(one)), None)
            if pair is None and said in row_of:
                row_of[said]["cards"].append(card)
                row_of[said]["outdated"] = row_of[said]["outdated"] and card["outdated"]
                continue
            text = _AUTOLINK.sub(r"\1", said)
            row_of[said] = {
                "said": text,
                "cards": [card],
                "is_short": len(text) <= SHORT,
                "outdated": card["outdated"],
            }
            sides = _sides(pair) if pair else ()
            group = next((group_of[key] for key in sides if key in group_of), None)
            if group is None or group["conflict"] not in (None, pair):
                group = {"rows": [], "conflict": None}
                groups.append(group)
            elif pair:
                group["conflict"] = pair
            group["rows"].append(row_of[said])
            group_of[cite["id"]] = group
        return groups

    @property
    def is_pending(self) -> bool:
        """Return True if an answer is still being written."""
        return self.message.is_unfinished

    @property
    def token(self) -> str:
        """Return the state that a poll compares to see if anything is new."""
        one = self.message
        return f"{one.state}.{one.attempt}.{len(one.tool_calls)}.{len(one.content)}"


def message_row(message: Message) -> MessageRow:
    if message.role == "user":
        cites = [cite | {"until": day_of(cite.get("until", ""))} for cite in message.cites]
        return MessageRow(message, SafeString(""), cites=cites)
    html = markdown.by_direction(markdown.render(numbered(message.content, message.cites)))
    known = range(1, len(message.cites) + 1)
    linked = markdown.link_citations(html, known, prefix=f"cite-{message.pk}-")
    return MessageRow(message, linked, [_call(one) for one in message.tool_calls], message.cites)


def messages_of(
    session: Session, *, before: int | None = None
) -> tuple[list[MessageRow], int | None]:
    """Return the last messages (of those before a position), and where earlier ones end.

    Two queries, one for contradictions, two for the facts and two for the ratings of the answers.
    """
    rows = session.messages.filter(is_index=False).order_by("-position")
    if before is not None:
        rows = rows.filter(position__lt=before)
    found = list(rows[: MAX_SHOWN + 1])
    shown = found[:MAX_SHOWN][::-1]
    earlier = shown[0].position if len(found) > MAX_SHOWN else None
    return with_details(session, [message_row(message) for message in shown]), earlier


def with_details(session: Session, rows: Sequence[MessageRow]) -> list[MessageRow]:
    """Return the messages with contradictions, the facts that they cite, and controls to rate them."""
    return with_ratings(session, _with_facts(session, with_disputes(session, rows)))


def _with_facts(session: Session, rows: Sequence[MessageRow]) -> list[MessageRow]:
    """Return the messages with the facts that they cite, or that a cited finding repeats: two queries."""
    cited: dict[str, set[str]] = {"fact": set(), "observation": set()}
    for row in rows:
        for cite in row.cites:
            if cite.get("type") in cited:
                cited[cite["type"]].add(cite["id"])
    if not any(cited.values()):
        return list(rows)
    facts = TopicFact.objects.for_user(session.owner).select_related("topic")
    findings = Observation.objects.for_user(session.owner).filter(pk__in=cited["observation"])
    found: dict[Any, TopicFact] = {fact.pk: fact for fact in facts.filter(pk__in=cited["fact"])}
    found |= facts.behind(findings.only("content", "topic_id")) if cited["observation"] else {}
    by_id = {str(key): fact for key, fact in found.items()}
    return [replace(row, facts=by_id) for row in rows]


def _sides(conflict: Conflict) -> tuple[str, str]:
    return str(conflict.left_id), str(conflict.right_id)


def with_disputes(session: Session, rows: Sequence[MessageRow]) -> list[MessageRow]:
    """Return the messages with the open contradictions between records that one cites: one query."""
    cited = [{cite["id"] for cite in row.cites if cite.get("id")} for row in rows]
    pairs = Conflict.objects.for_user(session.owner).standing().about(set().union(*cited))
    open_pairs = list(pairs.filter(kind=Conflict.Kind.CONTRADICTION))
    return [
        replace(row, disputes=[one for one in open_pairs if ids.issuperset(_sides(one))])
        for row, ids in zip(rows, cited, strict=True)
    ]


def with_ratings(session: Session, rows: Sequence[MessageRow]) -> list[MessageRow]:
    """Return the messages with a control on each complete answer: at most two queries."""
    values: dict[int, str] = {}  # by the position of the answer
    text: str | None = None
    for row in rows:
        message = row.message
        if message.role == "user":
            text = message.content
        elif message.state == Message.State.DONE and message.content:
            text = ratings.question_of(message) if text is None else text
            values[message.position] = text
    answers = [row.message for row in rows if row.message.position in values]
    for answer in answers:
        answer.session = session
    controls = controls_of(answers, list(values.values()))
    found = {one.position: one for one in controls if one is not None}
    return [replace(row, rating=found.get(row.message.position)) for row in rows]


def _call(call: Mapping[str, Any]) -> dict[str, Any]:
    arguments = [(str(key), str(value)) for key, value in call["arguments"].items()]
    proposal = call.get("proposal", "")
    return {
        "words": describe_call(call, held=bool(proposal)),
        "tool": call["tool"],
        "arguments": arguments,
        "result": call["result"],
        "records": [
            record | {"words": _kind_words(record["type"])}
            for record in call.get("records", [])
            if record.get("url")
        ],
        "is_error": call["is_error"],
        "proposal_url": reverse("memory:proposal", args=[proposal]) if proposal else "",
    }


def describe_call(call: Mapping[str, Any], *, held: bool) -> str:
    """Return a call in a few words: “read facts/user.md”, “recalled 3 memories for “tea””."""
    asked, tool, n = call["arguments"], call["tool"], len(call.get("records", []))
    params = {"path": shorten(str(asked.get("path", "")), 60), "tool": tool, "n": n}
    if call["is_error"] and params["path"] and "read" in tool:
        return _("couldn’t read %(path)s") % params
    if call["is_error"]:
        return _("called %(tool)s, but the call failed") % params
    if held:
        return _("proposed a change for your review")
    if tool == "recall" and "records" not in call:
        return _("searched memory for “%(words)s”") % {
            "words": shorten(str(asked.get("query", "")), 80)
        }
    if tool == "recall":
        words = ngettext(
            "recalled %(n)d memory for “%(words)s”", "recalled %(n)d memories for “%(words)s”", n
        )
        return words % {"n": n, "words": shorten(str(asked.get("query", "")), 80)}
    if tool == "update_memory" and asked.get("rating"):
        return _("rated a result")
    plain = {
        "memory_list": _("listed the memory files"),
        "memory_read": _("read %(path)s"),
        "memory_write": _("wrote %(path)s"),
        "memory_patch": _("changed %(path)s"),
        "memory_append": _("added to %(path)s"),
        "retrieve": _("read a record"),
        "list_memory": _("listed notes"),
        "about": _("looked up a name"),
        "remember": _("saved a note"),
        "remember_fil": _("saved what it learned"),
        "update_memory": _("replaced a note with a newer one"),
        "update_soul": _("changed the soul"),
    }
    return plain.get(tool, _("called %(tool)s")) % params


# --- results of a session ---


def left_by(session: Session) -> dict[str, Any] | None:
    """Return what was saved from an ended session, None for an open one: at most six queries.

    `is_pending` means that a worker is still at it.
    """
    if session.ended_at is None:
        return None
    source, owner = source_of(session.pk), session.owner
    waiting = Reflection.objects.for_user(owner).filter(source=source).unfinished()
    notes = Note.objects.for_user(owner).live().filter(source=source).order_by("created")
    observations = (
        Observation.objects.for_user(owner).live().filter(source=source).order_by("created")
    )
    return {
        "is_pending": waiting.exists(),
        "notes": list(notes[:MAX_LEFT]),
        "observations": list(observations[:MAX_LEFT]),
        "reflection": shown_of(owner, source),
    }


# --- forms ---


class MessageForm(SecretConfirmationMixin):
    """A message, whose length is checked when it is stored.

    `key` is the ID of the session that a first message starts, so that the same form sent twice
    starts one; `seen` is the last message that the page showed.
    """

    content = CleanTextField(
        label=gettext_lazy("Message"),
        required=False,
        widget=forms.Textarea(
            attrs={
                "rows": 3,
                "placeholder": gettext_lazy("Ask a question, or say what to remember"),
                "dir": "auto",
                "data-enter-sends": True,
            }
        ),
    )
    key = forms.UUIDField(required=False, widget=forms.HiddenInput)
    seen = forms.IntegerField(required=False, min_value=-1, widget=forms.HiddenInput)

    def __init__(self, data: Any = None, *, initial: dict[str, Any] | None = None) -> None:
        super().__init__(data, initial={"key": uuid.uuid4(), **(initial or {})})


class TitleForm(RefusalErrorsMixin, forms.Form):
    """A session's title, for the version that was seen."""

    title = CleanTextField(
        label=gettext_lazy("Title"),
        required=False,
        widget=forms.TextInput(attrs={"maxlength": MAX_TITLE_LENGTH, "dir": "auto"}),
    )
    version = forms.IntegerField(min_value=1, widget=forms.HiddenInput)


# --- pages ---


def _session(request: BeaconRequest, pk: UUID) -> Session:
    found: Session = get_owned_or_404(request, Session.objects.for_user(request.user).live(), pk)
    return found


def _answer(request: BeaconRequest, pk: int) -> Message:
    mine = Message.objects.filter(
        session__owner=request.user, session__trashed_at=None, role="assistant"
    )
    found: Message = get_object_or_404(mine.select_related("session__owner"), pk=pk)
    return found


@signed_in("GET", "POST")
def ask(request: BeaconRequest) -> HttpResponse:
    """List the sessions with a box to ask in, which starts a new session."""
    form = MessageForm(request.POST or None, initial={"content": request.GET.get("q", "")[:500]})
    if request.method == "POST" and form.is_valid():
        text = form.cleaned_data["content"]
        try:
            session = conversation.begin(request.user, text, key=form.cleaned_data["key"])
            conversation.ask(session, text, by=request.actor, seen=-1)
        except InvalidValue as exc:
            form.add_error("content", str(exc))
        except MemoryRefused as exc:
            form.add_error(None, str(exc))
        else:
            return redirect_to(request, session.get_absolute_url())
    page = sessions(request.user, cursor=request.GET.get("cursor", ""))
    context = {
        "form": form,
        "rows": page.rows,
        "next_cursor": page.next_cursor,
        "examples": examples(request.user),
        "has_model": connections.llm_profile() is not None,
    }
    template = "_ask" if request.htmx and request.htmx.target == "ask" else "ask"
    return render(request, f"memory/{template}.html", context)


@never_cache
@signed_in("GET", "HEAD")
def session(request: BeaconRequest, pk: UUID) -> HttpResponse:
    """Show a session: its messages, its tool calls, and what was saved from it."""
    return _page(request, _session(request, pk))


def _page(request: BeaconRequest, found: Session, form: MessageForm | None = None) -> HttpResponse:
    before = number_of(request.GET.get("before", ""))
    shown, earlier = messages_of(found, before=before)
    last = shown[-1].message.position if shown else -1
    is_pending = any(one.is_pending for one in shown)
    context: dict[str, Any] = {
        "session": found,
        "said": shown,
        "is_silent": is_pending and _is_silent(),
        "earlier": earlier,
        "before": before,
        "form": form or MessageForm(initial={"seen": last}),
        "left": left_by(found),
        "has_model": connections.llm_profile() is not None,
    }
    over_htmx = request.htmx and request.htmx.target == "session"
    return render(request, f"memory/{'_session' if over_htmx else 'session'}.html", context)


def _is_silent() -> bool:
    """Return True if no worker that writes answers has been seen recently."""
    return "upkeep" in health.silent(health.ages())


@signed_in("POST")
def session_send(request: BeaconRequest, pk: UUID) -> HttpResponse:
    """Send a message; if it can't be sent now, show it again as typed."""
    found = _session(request, pk)
    form = MessageForm(request.POST)
    is_said = False
    if form.is_valid():
        data = form.cleaned_data
        try:
            conversation.ask(found, data["content"], by=request.actor, seen=data["seen"])
        except InvalidValue as exc:
            form.add_error("content", str(exc))
        except MemoryRefused as exc:
            form.add_error(None, str(exc))
        else:
            if not request.htmx:
                return redirect(f"{found.get_absolute_url()}#last")
            is_said = True
    found.refresh_from_db()
    found.owner = request.user
    return _page(request, found, None if is_said else form)


@signed_in("POST")
def session_end(request: BeaconRequest, pk: UUID) -> HttpResponse:
    """End a session; a worker saves what matters."""
    found = _session(request, pk)
    if conversation_end.end(found, by=request.actor):
        messages.success(
            request, _("Conversation ended. Everything saved from it is listed below.")
        )
    else:
        messages.info(request, _("This conversation has already ended."))
    return redirect_to(request, found.get_absolute_url())


@signed_in("GET", "HEAD")
def session_left(request: BeaconRequest, pk: UUID) -> HttpResponse:
    """Show what was saved from an ended session; 204 if nothing is new."""
    found = _session(request, pk)
    left = left_by(found)
    if left is not None and left["is_pending"] and request.htmx:
        return HttpResponse(status=204)
    if not request.htmx:
        return redirect(found.get_absolute_url())
    return render(request, "memory/_session_left.html", {"session": found, "left": left})


@signed_in("GET", "POST")
def session_rename(request: BeaconRequest, pk: UUID) -> HttpResponse:
    found = _session(request, pk)
    form = TitleForm(request.POST or None, initial={"title": found.title, "version": found.version})
    context: dict[str, Any] = {"form": form, "session": found}
    if request.method == "POST" and form.is_valid():
        data = form.cleaned_data
        try:
            conversation.rename(
                found, data["title"], by=request.actor, expected_version=data["version"]
            )
        except StaleWrite as exc:
            found.refresh_from_db()
            context |= form.on_newest(found, exc)
        except MemoryRefused as exc:
            form.take(exc)
        else:
            toast_with_undo(request, found, _("Renamed."), seen=data["version"])
            return redirect_to(request, found.get_absolute_url())
    template = "_session_rename" if request.htmx else "session_rename"
    return render(request, f"memory/{template}.html", context)


@never_cache
@signed_in("GET", "HEAD")
def message(request: BeaconRequest, pk: int) -> HttpResponse:
    """Answer a poll with an answer's text so far; 204 if nothing is new."""
    found = _answer(request, pk)
    if not request.htmx:
        return redirect(f"{reverse('memory:session', args=[found.session_id])}#last")
    [shown] = with_details(found.session, [message_row(found)])
    if shown.is_pending and request.GET.get("seen") == shown.token:
        return HttpResponse(status=204)
    is_silent = shown.is_pending and _is_silent()
    context = {
        "one": shown,
        "session": found.session,
        "is_silent": is_silent,
        "is_polled": True,
    }
    return render(request, "memory/_message.html", context)


@signed_in("POST")
def message_stop(request: BeaconRequest, pk: int) -> HttpResponse:
    """Stop an answer; the text so far is kept."""
    found = _answer(request, pk)
    if not conversation.stop(found):
        messages.info(request, _("The answer is already complete."))
    return redirect_to(request, f"{reverse('memory:session', args=[found.session_id])}#last")


@signed_in("POST")
def message_again(request: BeaconRequest, pk: int) -> HttpResponse:
    """Retry an answer that failed."""
    found = _answer(request, pk)
    is_asked = conversation.again(found)
    if not is_asked:
        messages.info(request, _("You can retry only the last answer, and only if it failed."))
    return redirect_to(request, f"{reverse('memory:session', args=[found.session_id])}#last")
