"""The System status page: each part that Beacon needs, its state, and what to do about it.

No outside service is called. A model is judged by its last call, a search service by its settings
and its last run.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from django.conf import settings
from django.contrib import messages
from django.core.cache import cache
from django.db import connection
from django.db.models import Count, Q
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.cache import never_cache
from redis.exceptions import RedisError

from beacon_site import health
from beacon_site.celery import send
from beacon_site.embedded.places import BY_HAND
from beacon_site.providers.search.base import BY_NAME
from beacon_site.web.http import BeaconRequest
from beacon_site.web.responses import redirect_back, signed_in, staff_only
from memory.models import BackupFile, BackupPlan, Connection, LibraryFolder, MirroredFile, ModelCall
from memory.pages.shared.double_submit import idempotent_post
from memory.services.files import mirror_disk
from memory.services.llm import connections
from memory.services.notes import maintenance
from memory.services.records import invariants
from memory.services.search import embedding, vectors

GOOD, WARN, BAD = "good", "warn", "bad"
# Functions that return the services whose last request failed; research adds its own.
FAILING: list[Callable[[], list[str]]] = []
LOW_DISK = 2 * 1024**3  # bytes; with less the database can stop at any moment


class Part(NamedTuple):
    name: str
    state: str
    text: str
    todo: str = ""
    at: datetime | None = None
    page: str = ""  # the name of the page's URL on which it can be set up
    is_off: bool = False  # it isn't set up, and doesn't have to be
    is_unverified: bool = False  # a button verifies it now


def system_parts() -> list[Part]:
    """Return every part's state, in ten queries and one ping of Redis."""
    rows = connections.all_stored()
    return [
        Part("Beacon", GOOD, _("Version %(version)s.") % {"version": settings.BEACON_VERSION}),
        _database(),
        _redis(),
        *_processes(),
        _model(),
        *_searches(rows),
        _vectors(rows),
        _data_folder(),
        _library(),
        *_mirror(),
        _verified(),
        _backups(),
    ]


# --- servers and processes ---


def _database() -> Part:
    # The page only opens if the database answers, since sign-ins are stored there.
    version = connection.cursor().connection.info.server_version
    text = _("PostgreSQL %(version)s is running.")
    return Part(_("Database"), GOOD, text % {"version": f"{version // 10000}.{version % 10000}"})


def _redis() -> Part:
    problem = health.redis_problem()
    if not problem:
        return Part("Redis", GOOD, _("Running."))
    text = _(
        "Redis isn’t responding (%(why)s). Pages and edits still work. Runs wait in the database and start when Redis is back."
    )
    todo = (
        _("Start the server at REDIS_URL. “%(make)s up” starts the one included with Beacon.")
        % BY_HAND
    )
    return Part("Redis", BAD, text % {"why": problem}, todo)


def _processes() -> Iterator[Part]:
    names = {
        "worker": (_("Worker"), _("Runs wait in the queue until the worker is back.")),
        "upkeep": (
            _("Maintenance worker"),
            _("Schedules, expiry and library folder checks are paused."),
        ),
        "beat": (
            _("Scheduler"),
            _("Scheduled runs are paused. You can still start runs manually."),
        ),
    }
    for kind, age in health.ages().items():
        name, meaning = names[kind]
        if age is not None and age <= health.OLDEST[kind]:
            yield Part(name, GOOD, _("Last seen %(seconds)d s ago.") % {"seconds": age})
            continue
        seen = _("Never seen.") if age is None else _last_seen(round(age / 60))
        todo = _("Start it with “%(make)s up” or “docker compose up -d”, then check its log.")
        yield Part(name, BAD, f"{seen} {meaning}", todo % BY_HAND)


def _last_seen(minutes: int) -> str:
    if minutes < 120:
        return _("Last seen %(minutes)d min ago.") % {"minutes": max(minutes, 1)}
    return _("Last seen %(hours)d h ago.") % {"hours": round(minutes / 60)}


def _verified() -> Part:
    """Report what `verify` found in its last scheduled or manual run."""
    name = _("Stored data")
    try:
        last = cache.get(invariants.LAST_RESULT)
    except (RedisError, OSError):
        last = None
    if not isinstance(last, dict):
        text = _("Not verified yet.")
        return Part(name, WARN, text, _("Beacon verifies its data once a day."), is_unverified=True)
    if not last["broken"]:
        return Part(name, GOOD, _("Verified. No problems found."), at=last["at"])
    text = _("Failed checks: %(names)s.") % {"names": ", ".join(last["broken"])}
    todo = _("“%(manage)s verify” shows the details. With --fix, it repairs what it can.") % BY_HAND
    return Part(name, BAD, text, todo, last["at"])


def _backups() -> Part:
    name, rows = _("Backups"), list(BackupFile.objects.all()[:10])
    done = next((row for row in rows if row.state == BackupFile.State.DONE), None)
    if rows and rows[0].state == BackupFile.State.FAILED:
        text = f"{rows[0].get_problem_display()} {rows[0].detail}"
        return Part(
            name,
            BAD,
            text,
            _("Settings → Backups shows the last successful backup."),
            rows[0].created,
            "memory:backups",
        )
    written_at = BackupPlan.current().written_at
    if written_at and (done is None or done.created < written_at):
        return Part(name, GOOD, _("Created."), at=written_at)
    if done:
        text = _("Test restore succeeded.") if done.is_tested else _("Created.")
        return Part(name, WARN if done.problem else GOOD, text, done.detail, done.created)
    todo = _("Set a schedule under Settings → Backups.")
    return Part(name, WARN, _("There are no backups yet."), todo, page="memory:backups")


# --- outside services ---


def _model() -> Part:
    """Judge the model by its last completed call. Only the owner of the call sees the error."""
    profile = connections.llm_profile()
    if profile is None:
        text = _("No model is set up. Reports quote their sources.")
        todo = _("To use a model, add it in Models and search.")
        return Part(_("Model"), GOOD, text, todo, page="memory:connections", is_off=True)
    calls = ModelCall.objects.filter(model=profile.model).defer("prompt", "answer", "error")
    last = calls.exclude(failure=ModelCall.Failure.LEFT).order_by("-id").first()
    name, values = _("Model"), {"model": profile.model}
    if last is None:
        text = _("%(model)s is set up but hasn’t been used yet.") % values
        todo = _("Test the model in Models and search.")
        return Part(name, WARN, text, todo, page="memory:connections")
    values["purpose"] = last.aim
    if not last.failure:
        text = _("The last call to %(model)s (%(purpose)s) succeeded.") % values
        return Part(name, GOOD, text, at=last.created)
    values["why"] = last.get_failure_display()
    text = _("The last call to %(model)s (%(purpose)s) failed: %(why)s.") % values
    if last.failure == ModelCall.Failure.NONSENSE:  # one answer of one person's run
        return Part(name, GOOD, text, at=last.created)
    todo = _("Test the model in Models and search. Until it responds, runs work without a model.")
    return Part(name, BAD, text, todo, last.created, "memory:connections")


def _vectors(rows: Mapping[str, Connection]) -> Part:
    """Judge the embedder by its last use, and whether the database can compare vectors."""
    name, embedder = _("Embeddings"), connections.embedder(rows=rows)
    if embedder is None:
        return Part(name, GOOD, connections.why_no_embedder(), is_off=True)
    found = embedding.progress(embedder, rows[connections.EMBEDDINGS])
    text = _("Embeddings created by %(model)s: %(made)d. Records waiting: %(due)d.")
    text %= {"model": embedder.model, "made": found["made"], "due": found["due"]}
    if found["why"]:
        failure = _("The last attempt failed: %(why)s") % {"why": found["why"]}
        todo = _(
            "Test the embedding model in Models and search. Until it responds, search matches words only."
        )
        return Part(name, BAD, f"{text} {failure}", todo, found["since"], "memory:connections")
    if not vectors.extension_version():
        lacks = _("The database doesn’t have the “vector” extension, so search matches words only.")
        todo = _("Install pgvector on the database server and run “%(manage)s vectors”.") % BY_HAND
        return Part(name, WARN, f"{text} {lacks}", todo)
    return Part(name, GOOD, text)


def _searches(rows: Mapping[str, Connection]) -> Iterator[Part]:
    others = {connections.MODEL: _("the model"), connections.EMBEDDINGS: _("the embeddings")}
    lost = [str(BY_NAME[n].label) if n in BY_NAME else others[n] for n, row in rows.items()
            if row.secret_is_lost and "secret" not in connections.fixed_fields(n)]  # fmt: skip
    if lost:
        text = _("Keys that can’t be read because SECRET_KEY has changed: %(names)s.")
        todo = _("Enter the keys again in Models and search, or restore the old SECRET_KEY.")
        text %= {"names": ", ".join(lost)}
        yield Part(_("Keys"), BAD, text, todo, page="memory:connections")
    usual = connections.search_services()
    names = ", ".join(str(BY_NAME[name].label) for name in usual)
    missing = [
        str(BY_NAME[name].label)
        for name in usual
        if name in rows and not connections.is_ready(connections.search_profile(name, rows[name]))
    ]
    text = _("Default search services: %(names)s.") % {"names": names}
    if missing:
        lacks = _("BEACON_SEARCH includes services that aren’t set up: %(names)s.")
        todo = _(
            "Enter the key or URL under “Models and search”, or remove the name from BEACON_SEARCH."
        )
        text = f"{text} {lacks % {'names': ', '.join(missing)}}"
        yield Part(_("Search services"), BAD, text, todo)
    elif not set(usual) - {"library", "sample", "feeds"}:
        text += " " + _("None of these services searches the web.")
        todo = _("To search the web, add a web search service to BEACON_SEARCH.")
        yield Part(_("Search services"), GOOD, text, todo)
    else:
        yield _last_searches(usual, rows, text)


def _last_searches(usual: Sequence[str], rows: Mapping[str, Connection], text: str) -> Part:
    """Judge the services by the last runs that used them.

    A service fails this check if someone entered its key or URL. If only BEACON_SEARCH names the
    services, one of them has to answer, because each one refuses a request now and then. The
    default services only cause a warning, since Beacon also works offline.
    """
    name = _("Search services")
    unreachable = {service for failing in FAILING for service in failing()}
    failed = [service for service in usual if service in unreachable]
    if not failed:
        return Part(name, GOOD, text)
    line = _("Failed in the last run that used them: %(names)s.")
    text = f"{text} {line % {'names': ', '.join(str(BY_NAME[one].label) for one in failed)}}"
    todo = _(
        "Test these services in Models and search. If all of them fail, check this machine’s network connection."
    )
    entered = {one for one in usual if one in rows and connections.was_entered(rows[one])}
    outside = set(usual) - {"library", "sample", "feeds"}
    if entered & unreachable or (settings.BEACON_SEARCH and outside <= unreachable):
        return Part(name, BAD, text, todo)
    if outside <= unreachable:
        text += " " + _("These services are used by default because they don’t need a key.")
        todo = _(
            "If this machine is offline, no action is needed. The library and the sample topic work offline. To stop using online search services, set BEACON_SEARCH=library."
        )
    return Part(name, WARN, text, todo)


# --- disk ---


def _data_folder() -> Part:
    folder, name = Path(settings.DATA_DIR), _("Data folder")
    if not os.access(folder, os.W_OK | os.X_OK):
        text = _("Beacon can’t write to %(folder)s.")
        todo = _(
            "Give ownership of the folder to the user that runs Beacon, or set BEACON_DATA_DIR to a folder that user owns."
        )
        return Part(name, BAD, text % {"folder": folder}, todo)
    free = shutil.disk_usage(folder).free
    text = _("%(folder)s has %(gib).1f GiB free.") % {"folder": folder, "gib": free / 1024**3}
    if free < LOW_DISK:
        return Part(name, WARN, text, _("Free up disk space. A full disk stops the database."))
    return Part(name, GOOD, text)


def _library() -> Part:
    name, folder = _("Library folder"), settings.BEACON_LIBRARY_DIR
    if not folder:
        text = _("No folder is watched because BEACON_LIBRARY_DIR isn’t set.")
        return Part(name, GOOD, text, is_off=True)
    if not os.access(folder, os.R_OK | os.X_OK):
        text = _("%(folder)s is missing, or Beacon can’t read it.")
        todo = _(
            "Restore the folder or its permissions. In the meantime, its documents stay in Beacon."
        )
        return Part(name, BAD, text % {"folder": folder}, todo)
    row = LibraryFolder.objects.filter(folder=folder).first()
    if row is None or row.checked_at is None:
        return Part(name, WARN, _("%(folder)s hasn’t been read yet.") % {"folder": folder})
    files = ngettext("%(n)d searchable file", "%(n)d searchable files", row.files)
    text = f"{folder}: {files % {'n': row.files}}."
    if row.problem:
        return Part(name, BAD, f"{text} {row.problem}", _("See the Library page."), row.checked_at)
    return Part(name, GOOD, text, at=row.checked_at)


def _mirror() -> Iterator[Part]:
    """Judge the copies of memory files on disk. Only the owner sees which file has a problem."""
    name, folder = _("Memory files on disk"), settings.BEACON_MIRROR_DIR
    if not folder:
        text = _("Stored in the database only (BEACON_MIRROR_DIR isn’t set).")
        yield Part(name, GOOD, text, is_off=True)
        return
    problem, git_problem = mirror_disk.problems()
    if problem:
        yield Part(
            name,
            BAD,
            problem,
            _(
                "You can still edit files in Beacon. Your edits will be written to the folder later."
            ),
        )
        return
    if git_problem:
        text = _("Changes aren’t being committed: %(why)s.") % {"why": git_problem}
        todo = _(
            "Fix the problem, or turn Git off with BEACON_MIRROR_GIT=0. Beacon still writes the files to disk."
        )
        yield Part(_("Memory files in Git"), WARN, text, todo)
    kinds = MirroredFile.objects.of_mirror().aggregate(
        files=Count("id", filter=~Q(digest="")), bad=Count("id", filter=~Q(problem=""))
    )
    text = ngettext("%(folder)s has %(n)d file.", "%(folder)s has %(n)d files.", kinds["files"])
    text %= {"folder": folder, "n": kinds["files"]}
    if bad := kinds["bad"]:
        behind = ngettext(
            "%(n)d file is out of date, or has an edit that couldn’t be imported.",
            "%(n)d files are out of date, or have edits that couldn’t be imported.",
            bad,
        )
        todo = _("The owners of these files can see the details under Files and in Activity.")
        yield Part(name, WARN, f"{text} {behind % {'n': bad}}", todo)
        return
    yield Part(name, GOOD, text)


# --- page ---


@never_cache
@staff_only("GET", "HEAD", "POST")
@idempotent_post
def health_page(request: BeaconRequest) -> HttpResponse:
    """Show each part that Beacon needs, and what to do if one fails; POST verifies the data."""
    if request.method == "POST":
        if send("memory.tasks.verify", queue="maintenance"):
            messages.success(request, _("Verifying the data. Check again in a minute."))
        else:
            messages.error(request, _("The check couldn’t start because Redis isn’t responding."))
        return redirect("memory:health")
    parts = system_parts()
    context = {
        "parts": parts,
        "bad": sum(part.state == BAD for part in parts),
        "warned": sum(part.state == WARN for part in parts),
        "tab": "health",
    }
    return render(request, "memory/_health.html" if request.htmx else "memory/health.html", context)


# --- maintenance of notes ---


@signed_in("POST")
def notes_maintain(request: BeaconRequest) -> HttpResponse:
    """Prune and merge the person's notes; a worker does what needs a model."""
    owner = request.user
    waits_for_model = connections.language_model() is not None
    if waits_for_model and maintenance.old_notes(owner).exists():
        if send("memory.tasks.maintain_notes_of", owner.pk, True, queue="reflect"):
            text = _("Maintenance started. Activity will show what it removes and merges.")
            messages.success(request, text)
        else:
            text = _(
                "Maintenance couldn’t start because Redis isn’t responding. It also runs automatically every 6 hours."
            )
            messages.error(request, text)
    else:
        done = maintenance.maintain(owner, by=request.actor)
        messages.success(request, done.description())
    return redirect_back(request, reverse("memory:notes"))
