"""Whether everything that Beacon stands on works: for each part what is so, why, and what to do.

Nothing outside is asked: a model is judged by its last call, a search service by what is set up
and by the last run that asked it.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from django.conf import settings
from django.core.cache import cache
from django.db import connection
from django.db.models import Count, Q
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from redis.exceptions import RedisError

from beacon_site import health
from beacon_site.installed import BY_HAND
from beacon_site.providers.catalogue import BY_NAME
from beacon_site.providers.llm import LlmProfile
from memory.files import mirror_folder
from memory.llm import connections, embedders
from memory.models import Connection, LibraryFolder, MirroredFile, ModelCall
from memory.recall import embedding, vector_tables

GOOD, WARN, BAD = "good", "warn", "bad"
# Each returns the services that failed when last asked; research, which asks them, adds its own.
FAILING: list[Callable[[], list[str]]] = []
LAST_EXAMINED = "doctor:last"  # where the doctor keeps what it found, in the cache
DRIFT = "drift"
LOW_DISK = 2 * 1024**3  # bytes: below it a database may stop at any moment


@dataclass(frozen=True, slots=True)
class Check:
    """One part: its state, what is so and why, what to do about it, and since when it is known."""

    name: str
    state: str
    said: str
    todo: str = ""
    at: datetime | None = None
    key: str = ""


def checks() -> list[Check]:
    """Return every part's state, in ten queries and one ping of Redis."""
    rows = connections.all_stored()
    return [
        Check("Beacon", GOOD, _("Version %(version)s.") % {"version": settings.BEACON_VERSION}),
        _database(),
        _redis(),
        *_processes(),
        _model(),
        *_searches(rows),
        _vectors(rows),
        _data_folder(),
        _library(),
        *_mirror(),
        _drift(),
    ]


# --- servers and processes ------------------------------------------------------------------------


def _database() -> Check:
    # A page that is shown has asked it already: the person's sign-in lies there.
    version = connection.cursor().connection.info.server_version
    said = _("PostgreSQL %(version)s answers.")
    return Check(_("Database"), GOOD, said % {"version": f"{version // 10000}.{version % 10000}"})


def _redis() -> Check:
    problem = health.redis_problem()
    if not problem:
        return Check("Redis", GOOD, _("Answers."))
    said = _(
        "Does not answer (%(why)s). Pages and edits go on; runs wait in the database and start "
        "when it is back."
    )
    todo = _("Start the server at REDIS_URL; “%(make)s up” starts Beacon's own.") % BY_HAND
    return Check("Redis", BAD, said % {"why": problem}, todo)


def _processes() -> Iterator[Check]:
    names = {
        "worker": (_("Worker"), _("Runs wait in the queue until one is back.")),
        "upkeep": (
            _("Upkeep worker"),
            _("Schedules, expiry and the library's folder stand still."),
        ),
        "beat": (_("Beat"), _("Schedules stand still; runs started by hand still work.")),
    }
    for kind, age in health.ages().items():
        name, meaning = names[kind]
        if age is not None and age <= health.OLDEST[kind]:
            said = _("Spoke %(seconds)d s ago.") % {"seconds": age}
            yield Check(name, GOOD, said, key=kind)
            continue
        said = _("Never heard of.") if age is None else _spoke(age)
        todo = _(
            "“%(make)s up” starts it; with Docker, “docker compose up -d”. Then look at its log."
        )
        yield Check(name, BAD, f"{said} {meaning}", todo % BY_HAND, key=kind)


def _spoke(age: float) -> str:
    minutes = round(age / 60)
    if minutes < 120:
        return _("Last spoke %(minutes)d min ago.") % {"minutes": max(minutes, 1)}
    return _("Last spoke %(hours)d h ago.") % {"hours": round(minutes / 60)}


def _drift() -> Check:
    """Tell what the doctor found when it looked last: at each night, or by its command."""
    name = _("Doctor")
    try:
        told = cache.get(LAST_EXAMINED)
    except (RedisError, OSError):
        told = None
    if not isinstance(told, dict):
        said = _("It has not looked yet whether what belongs together still does.")
        todo = _("It looks each day; “%(manage)s doctor” looks now.") % BY_HAND
        return Check(name, GOOD, said, todo, key=DRIFT)
    found = [*told["bad"], *told["warned"]]
    if not found:
        said = _("Found nothing that does not belong together.")
        return Check(name, GOOD, said, at=told["at"], key=DRIFT)
    said = _("Found something about: %(names)s.") % {"names": ", ".join(found)}
    todo = _("“%(manage)s doctor” explains it; with --fix it mends what can be mended.") % BY_HAND
    return Check(name, BAD if told["bad"] else WARN, said, todo, told["at"], DRIFT)


# --- what is outside -------------------------------------------------------------------------------


def _model() -> Check:
    profile = connections.llm_profile()
    if profile is None:
        said = _("None is set up, which is a way to work: reports are extracts from the sources.")
        return Check(_("Model"), GOOD, said, _("To have one, name it in Connections."))
    return _last_answer(profile)


def _last_answer(profile: LlmProfile) -> Check:
    """Judge the model by its last call that was seen to its end; why it failed is its owner's."""
    calls = ModelCall.objects.filter(model=profile.model).defer("prompt", "answer", "error")
    last = calls.exclude(failure=ModelCall.Failure.LEFT).order_by("-id").first()
    name, values = _("Model"), {"model": profile.model}
    if last is None:
        said = _("%(model)s is set up and gave no answer yet.") % values
        return Check(name, WARN, said, _("Test it in Connections."))
    values["purpose"] = last.aim
    if not last.failure:
        said = _("%(model)s answered its last call (%(purpose)s).") % values
        return Check(name, GOOD, said, at=last.created)
    values["why"] = last.get_failure_display()
    said = _("The last call of %(model)s (%(purpose)s) came to nothing: %(why)s.") % values
    if last.failure == ModelCall.Failure.NONSENSE:  # one answer of one person's run
        return Check(name, GOOD, said, at=last.created)
    todo = _("Test it in Connections. Until it answers, runs use their fallbacks and say so.")
    return Check(name, BAD, said, todo, at=last.created)


def _vectors(rows: Mapping[str, Connection]) -> Check:
    """Judge what makes vectors by its last use, and whether the database can compare them."""
    name, embedder = _("Vectors"), embedders.embedder(rows=rows)
    if embedder is None:
        return Check(name, GOOD, embedders.why_none())
    found = embedding.progress(embedder, rows[connections.EMBEDDINGS])
    said = _("%(model)s makes them; %(made)d are made, %(due)d records wait for theirs.")
    said %= {"model": embedder.model, "made": found.made, "due": found.due}
    if found.why:
        told = _("Its last use came to nothing: %(why)s") % {"why": found.why}
        todo = _("Test it in Connections. Until it answers, recall finds by words alone.")
        return Check(name, BAD, f"{said} {told}", todo, at=found.since)
    if not vector_tables.extension_version():
        told = _("The database has no extension “vector”, so recall finds by words alone.")
        todo = _("Install pgvector there and run “%(manage)s vectors”.") % BY_HAND
        return Check(name, WARN, f"{said} {told}", todo)
    return Check(name, GOOD, said)


def _searches(rows: Mapping[str, Connection]) -> Iterator[Check]:
    others = {connections.MODEL: _("the model"), connections.EMBEDDINGS: _("the vectors")}
    lost = [str(BY_NAME[n].label) if n in BY_NAME else others[n] for n, row in rows.items()
            if row.secret_is_lost and "secret" not in connections.fixed_fields(n)]  # fmt: skip
    if lost:
        said = _("Stored but not readable, because SECRET_KEY has changed since: %(names)s.")
        todo = _("Enter them again in Connections, or bring the old SECRET_KEY back.")
        yield Check(_("Keys"), BAD, said % {"names": ", ".join(lost)}, todo)
    usual = connections.search_services()
    names = ", ".join(str(BY_NAME[name].label) for name in usual)
    missing = [
        str(BY_NAME[name].label)
        for name in usual
        if name in rows and not connections.is_ready(connections.search_profile(name, rows[name]))
    ]
    said = _("A topic that names none asks: %(names)s.") % {"names": names}
    if missing:
        lacks = _("BEACON_SEARCH names what is not set up: %(names)s.")
        todo = _("Enter the key or address in Connections, or take the name out of BEACON_SEARCH.")
        said = f"{said} {lacks % {'names': ', '.join(missing)}}"
        yield Check(_("Search services"), BAD, said, todo)
    elif not set(usual) - {"library", "sample", "feeds"}:
        said = f"{said} {_('None of these searches the web, which is a way to work.')}"
        todo = _("To search the web, let BEACON_SEARCH name a service of it.")
        yield Check(_("Search services"), GOOD, said, todo)
    else:
        yield _last_searches(usual, rows, said)


def _last_searches(usual: Sequence[str], rows: Mapping[str, Connection], said: str) -> Check:
    """Judge the services by the runs that asked them last; why one failed is the run's owner's.

    A service whose key or address was entered has to answer.  Those that BEACON_SEARCH names without
    one have to between them: each refuses now and then.  Those that nobody asked for need not, since
    a machine off the network is a way to work.
    """
    name = _("Search services")
    told = {service for failing in FAILING for service in failing()}
    failed = [service for service in usual if service in told]
    if not failed:
        return Check(name, GOOD, said)
    line = _("In the last run that asked them these failed: %(names)s.")
    said = f"{said} {line % {'names': ', '.join(str(BY_NAME[one].label) for one in failed)}}"
    todo = _("Test them in Connections; if none is reached, look at this machine's network.")
    entered = {one for one in usual if one in rows and connections.was_entered(rows[one])}
    outside = set(usual) - {"library", "sample", "feeds"}
    if entered & told or (settings.BEACON_SEARCH and outside <= told):
        return Check(name, BAD, said, todo)
    if outside <= told:
        said += " " + _("Nobody set them up: runs ask them because they need no key.")
        todo = _(
            "Off the network there is nothing to do: the library and the sample topic need none. "
            "With BEACON_SEARCH=library no run asks them. Else look at this machine's network."
        )
    return Check(name, WARN, said, todo)


# --- the disk --------------------------------------------------------------------------------------


def _data_folder() -> Check:
    folder, name = Path(settings.DATA_DIR), _("Data folder")
    if not os.access(folder, os.W_OK | os.X_OK):
        said = _("%(folder)s cannot be written to by the account that Beacon runs as.")
        todo = _("Give the folder to that account, or name another one in BEACON_DATA_DIR.")
        return Check(name, BAD, said % {"folder": folder}, todo)
    free = shutil.disk_usage(folder).free
    said = _("%(folder)s can be written to; %(gib).1f GiB are free.")
    said %= {"folder": folder, "gib": free / 1024**3}
    if free < LOW_DISK:
        return Check(name, WARN, said, _("Make room: a full disk stops the database."))
    return Check(name, GOOD, said)


def _library() -> Check:
    name, folder = _("Library folder"), settings.BEACON_LIBRARY_DIR
    if not folder:
        return Check(name, GOOD, _("None is watched (BEACON_LIBRARY_DIR is not set)."))
    if not os.access(folder, os.R_OK | os.X_OK):
        said = _("%(folder)s is gone, or cannot be read by the account that Beacon runs as.")
        todo = _("Bring it back or correct its rights; what was read from it stays for a day.")
        return Check(name, BAD, said % {"folder": folder}, todo)
    row = LibraryFolder.objects.filter(folder=folder).first()
    if row is None or row.checked_at is None:
        return Check(name, WARN, _("%(folder)s was not looked at yet.") % {"folder": folder})
    files = ngettext("%(n)d file can be searched", "%(n)d files can be searched", row.files)
    said = f"{folder}: {files % {'n': row.files}}."
    if row.problem:
        return Check(name, BAD, f"{said} {row.problem}", _("See Library."), row.checked_at)
    return Check(name, GOOD, said, at=row.checked_at)


def _mirror() -> Iterator[Check]:
    """Judge the copies of memory files on disk; whose file has a problem is its owner's."""
    name, folder = _("Memory files on disk"), settings.BEACON_MIRROR_DIR
    if not folder:
        said = _("They are kept in the database alone (BEACON_MIRROR_DIR is not set).")
        yield Check(name, GOOD, said)
        return
    problem, git_problem = mirror_folder.problems()
    if problem:
        yield Check(name, BAD, problem, _("Edits in Beacon go on, and are written there later."))
        return
    if git_problem:
        said = _("No commit is made of changes: %(why)s.") % {"why": git_problem}
        todo = _("Mend that, or set BEACON_MIRROR_GIT to 0; the files are written all the same.")
        yield Check(_("Memory files in git"), WARN, said, todo)
    kinds = MirroredFile.objects.aggregate(
        files=Count("id", filter=~Q(digest="")), bad=Count("id", filter=~Q(problem=""))
    )
    said = ngettext("%(folder)s holds %(n)d file.", "%(folder)s holds %(n)d files.", kinds["files"])
    said %= {"folder": folder, "n": kinds["files"]}
    if bad := kinds["bad"]:
        told = ngettext(
            "The copy of %(n)d file is behind or was edited in a way that could not be taken in.",
            "The copies of %(n)d files are behind or were edited in a way that could not be taken "
            "in.",
            bad,
        )
        todo = _("Each is named, with its reason, on its owner's Files page and in Activity.")
        yield Check(name, WARN, f"{said} {told % {'n': bad}}", todo)
        return
    yield Check(name, GOOD, said)
