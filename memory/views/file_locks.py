"""Who may change a memory file: all of it, or each of its sections."""

from __future__ import annotations

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods
from django.views.decorators.vary import vary_on_headers

from beacon_site.http import BeaconRequest
from memory.errors import MemoryRefused
from memory.file_pages import locks as file_locks
from memory.file_pages.answers import file_or_404, number, say_with_undo
from memory.models import MemoryFile
from memory.models.base import Lock
from memory.records import acts as record_acts
from memory.responses import go_to, next_of, refused


@require_http_methods(["GET", "POST"])
@login_required
@vary_on_headers("HX-Request")
def lock(request: BeaconRequest, path: str) -> HttpResponse:
    """Show what agents may not change, and lock or unlock the file or one of its sections."""
    file = file_or_404(request, path)
    if request.method == "POST":
        version = file.version
        try:
            said = _set(request, file)
        except MemoryRefused as exc:
            return refused(request, str(exc))
        file = file_or_404(request, path)
        if file.version == version:
            messages.info(request, _("It is like that already."))
        else:
            say_with_undo(request, file, said)
        if not request.htmx:
            return go_to(request, _next(request))
    context = {
        "file": file,
        "tab": "lock",
        "locks": Lock.choices,
        "page": file_locks.sections_to_lock(file, begin=number(request.GET.get("from", ""))),
    }
    in_place = request.htmx and request.htmx.target == "file-locks"
    template = "memory/_file_locks.html" if in_place else "memory/file_locks.html"
    return render(request, template, context)


def _next(request: BeaconRequest) -> str:
    """Return where to go on: at the section on the page from which it was locked, else here."""
    anchor = request.POST.get("lock-section") or request.POST.get("unlock") or ""
    page = next_of(request)
    return f"{page}#{anchor}" if page else request.get_full_path()


def _set(request: BeaconRequest, file: MemoryFile) -> str:
    """Do what the form asks for, and return what to say of it."""
    for name, said in (("lock-section", _("Locked: %(it)s")), ("unlock", _("Unlocked: %(it)s"))):
        if anchor := request.POST.get(name):
            locked = name == "lock-section"
            heading = file_locks.set_section(file, anchor, by=request.actor, locked=locked)
            return said % {"it": heading}
    record_acts.carry_out("lock", file, by=request.actor, value=request.POST.get("lock", ""))
    return _("The file is “%(lock)s” for agents now.") % {"lock": file.get_lock_display()}
