"""The button that looks after one's notes at once."""

from __future__ import annotations

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST
from django_htmx.http import HttpResponseClientRedirect

from beacon_site.broker import send
from beacon_site.http import BeaconRequest, page_of_ours
from memory.llm import connections
from memory.notes import maintenance


@require_POST
@login_required
def notes_maintain(request: BeaconRequest) -> HttpResponse:
    """Prune and merge the person's notes; what a model is to write, a worker does."""
    owner = request.user
    waits_for_model = connections.language_model() is not None
    if waits_for_model and maintenance.old_notes(owner).exists():
        if send("memory.tasks.maintain_notes_of", owner.pk, True, queue="reflect"):
            text = _(
                "The upkeep of your notes has begun; Activity tells what it pruned and merged."
            )
            messages.success(request, text)
        else:
            text = _(
                "No worker could be told: Redis does not answer. The upkeep that comes every six "
                "hours does it, or press the button again."
            )
            messages.error(request, text)
    else:
        done = maintenance.maintain(owner, by=request.actor)
        messages.success(request, done.in_words())
    back = page_of_ours(request.POST.get("next", ""), reverse("memory:notes"))
    return HttpResponseClientRedirect(back) if request.htmx else redirect(back)
