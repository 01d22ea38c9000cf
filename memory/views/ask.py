"""Ask: sessions with the agent, what is said in one, and the answers as they come."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from beacon_site import health
from beacon_site.http import BeaconRequest
from memory.chat import conversation
from memory.chat import end as conversation_end
from memory.chat import page as ask_page
from memory.errors import InvalidValue, MemoryRefused, StaleWrite
from memory.forms.ask import MessageForm, TitleForm
from memory.llm import connections
from memory.models import Message, Session
from memory.responses import go_to, refused, undo_tag


def _session(request: BeaconRequest, pk: UUID) -> Session:
    found: Session = get_object_or_404(Session.objects.of(request.user).live(), pk=pk)
    found.owner = request.user
    return found


def _answer(request: BeaconRequest, pk: int) -> Message:
    mine = Message.objects.filter(
        session__owner=request.user, session__trashed_at=None, role="assistant"
    )
    found: Message = get_object_or_404(mine.select_related("session__owner"), pk=pk)
    return found


@require_http_methods(["GET", "POST"])
@login_required
def ask(request: BeaconRequest) -> HttpResponse:
    """Show the sessions with a box to ask in; what is sent there begins a session."""
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
            return go_to(request, session.get_absolute_url())
    page = ask_page.sessions(request.user, cursor=request.GET.get("cursor", ""))
    context = {
        "form": form,
        "rows": page.rows,
        "next_cursor": page.next_cursor,
        "examples": ask_page.examples(request.user),
        "has_model": connections.llm_profile() is not None,
    }
    template = "_ask" if request.htmx and request.htmx.target == "ask" else "ask"
    return render(request, f"memory/{template}.html", context)


@never_cache
@require_safe
@login_required
def session(request: BeaconRequest, pk: UUID) -> HttpResponse:
    """Show a session: what was said, the tools that were called, and what it left."""
    return _page(request, _session(request, pk))


def _page(request: BeaconRequest, found: Session, form: MessageForm | None = None) -> HttpResponse:
    asked = request.GET.get("before", "")
    before = int(asked) if asked.isdecimal() and len(asked) < 9 else None
    shown, earlier = ask_page.messages_of(found, before=before)
    last = shown[-1].message.position if shown else -1
    is_pending = any(one.is_pending for one in shown)
    context: dict[str, Any] = {
        "session": found,
        "said": shown,
        "is_silent": is_pending and _is_silent(),
        "earlier": earlier,
        "before": before,
        "form": form or MessageForm(initial={"seen": last}),
        "left": ask_page.left_by(found),
        "has_model": connections.llm_profile() is not None,
    }
    over_htmx = request.htmx and request.htmx.target == "session"
    return render(request, f"memory/{'_session' if over_htmx else 'session'}.html", context)


def _is_silent() -> bool:
    """Whether nobody is heard of who works on answers."""
    return "upkeep" in health.silent(health.ages())


@require_POST
@login_required
def session_say(request: BeaconRequest, pk: UUID) -> HttpResponse:
    """Say something more; what cannot be sent now is shown again as it was typed."""
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


@require_POST
@login_required
def session_end(request: BeaconRequest, pk: UUID) -> HttpResponse:
    """End a session; what matters of it is kept by a worker."""
    found = _session(request, pk)
    if conversation_end.end(found, by=request.actor):
        messages.success(request, _("The session is ended. What it leaves is listed below."))
    else:
        messages.info(request, _("The session was ended already."))
    return go_to(request, found.get_absolute_url())


@require_safe
@login_required
def session_left(request: BeaconRequest, pk: UUID) -> HttpResponse:
    """Show what an ended session left; nothing while nothing is new (204)."""
    found = _session(request, pk)
    left = ask_page.left_by(found)
    if left is not None and left.is_pending and request.htmx:
        return HttpResponse(status=204)
    if not request.htmx:
        return redirect(found.get_absolute_url())
    return render(request, "memory/_session_left.html", {"session": found, "left": left})


@require_http_methods(["GET", "POST"])
@login_required
def session_rename(request: BeaconRequest, pk: UUID) -> HttpResponse:
    """Give a session another title."""
    found = _session(request, pk)
    form = TitleForm(request.POST or None, initial={"title": found.title, "version": found.version})
    if request.method == "POST" and form.is_valid():
        data = form.cleaned_data
        try:
            conversation.rename(
                found, data["title"], by=request.actor, expected_version=data["version"]
            )
        except InvalidValue as exc:
            form.add_error("title", str(exc))
        except StaleWrite as exc:
            found.refresh_from_db()
            typed = {"title": data["title"], "version": found.version}
            context = {"form": TitleForm(initial=typed), "session": found, "problem": str(exc)}
            return render(request, _rename_template(request), context)
        else:
            messages.success(request, _("Renamed."), extra_tags=undo_tag(found))
            return go_to(request, found.get_absolute_url())
    return render(request, _rename_template(request), {"form": form, "session": found})


def _rename_template(request: BeaconRequest) -> str:
    return f"memory/{'_session_rename' if request.htmx else 'session_rename'}.html"


@never_cache
@require_safe
@login_required
def message(request: BeaconRequest, pk: int) -> HttpResponse:
    """Answer a poll with an answer as far as it has come; 204 where nothing is new."""
    found = _answer(request, pk)
    if not request.htmx:
        return redirect(f"{reverse('memory:session', args=[found.session_id])}#last")
    shown = ask_page.said(found)
    if shown.is_pending and request.GET.get("seen") == shown.token:
        return HttpResponse(status=204)
    is_silent = shown.is_pending and _is_silent()
    context = {"one": shown, "session": found.session, "is_silent": is_silent}
    return render(request, "memory/_message.html", context)


@require_POST
@login_required
def message_stop(request: BeaconRequest, pk: int) -> HttpResponse:
    """Stop an answer; what is written of it stays."""
    found = _answer(request, pk)
    if not conversation.stop(found):
        messages.info(request, _("The answer was there already."))
    return go_to(request, f"{reverse('memory:session', args=[found.session_id])}#last")


@require_POST
@login_required
def message_again(request: BeaconRequest, pk: int) -> HttpResponse:
    """Have an answer that failed worked out anew."""
    found = _answer(request, pk)
    try:
        is_asked = conversation.again(found)
    except MemoryRefused as exc:
        return refused(request, str(exc))
    if not is_asked:
        messages.info(request, _("Only the last answer, where it failed, is tried again."))
    return go_to(request, f"{reverse('memory:session', args=[found.session_id])}#last")
