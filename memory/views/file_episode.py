"""Writing an entry of a month's file by hand, field by field."""

from __future__ import annotations

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods
from django.views.decorators.vary import vary_on_headers

from beacon_site.http import BeaconRequest
from memory.errors import MemoryRefused
from memory.file_pages import editing as file_editing
from memory.forms.fields import cleaned_of
from memory.forms.files import EpisodeForm
from memory.responses import go_to, say_cleaned, undo_tag


@require_http_methods(["GET", "POST"])
@login_required
@vary_on_headers("HX-Request")
def episode_new(request: BeaconRequest) -> HttpResponse:
    """Write an entry; the file of its month is made by its first."""
    first = {"date": timezone.localdate()}
    form = EpisodeForm(request.POST if request.method == "POST" else None, initial=first)
    if request.method == "POST" and form.is_valid():
        try:
            saved = file_editing.write_episode(request.user, form.cleaned_data, by=request.actor)
        except MemoryRefused as exc:
            form.add_error(None, str(exc))
        else:
            told = {"path": saved.file.path, "version": saved.file.version}
            said = _("Added to %(path)s, version %(version)d.") % told
            messages.success(request, said, extra_tags=undo_tag(saved.file))
            say_cleaned(request, cleaned_of(form))
            for warning in saved.warnings:
                messages.warning(request, warning)
            return go_to(request, saved.file.get_absolute_url())
    template = "memory/_episode_new.html" if request.htmx else "memory/episode_new.html"
    return render(request, template, {"form": form})
