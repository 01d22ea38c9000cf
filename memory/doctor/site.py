"""How Beacon is set up: migrations, versions, settings that are risky, calls that were left."""

from __future__ import annotations

import platform
from collections.abc import Iterator

import celery
import django
import redis
from django.apps import apps
from django.conf import settings
from django.core.checks import Tags, run_checks
from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from beacon_site.installed import BY_HAND
from memory.doctor.checkup import BAD, WARN
from memory.doctor.examining import Examination, Found
from memory.models import CallReservation, User
from memory.models.reservations import LIFETIME

LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost", ""})


def look_at_migrations() -> Found:
    """Compare the database's state with what this version needs."""
    executor = MigrationExecutor(connection)
    plan = executor.migration_plan(executor.loader.graph.leaf_nodes())
    due = [f"{migration.app_label}.{migration.name}" for migration, _back in plan]
    foreign = executor.loader.applied_migrations.keys() - executor.loader.disk_migrations.keys()
    if due:
        said = _("Not applied yet: %(names)s.") % {"names": _few(due)}
        todo = _("Start Beacon anew (%(make)s up), or run “%(manage)s migrate”.") % BY_HAND
        return Found(said, BAD, todo)
    if foreign:
        names = _few(sorted(f"{app}.{name}" for app, name in foreign))
        said = _("The database was brought up to date by a newer version: it has %(names)s.")
        todo = _("Use that version, or restore a backup that this one made.")
        return Found(said % {"names": names}, BAD, todo)
    if missing := _missing_columns():
        said = _(
            "Its tables lack what this version writes, though it counts as migrated: %(names)s."
        )
        todo = _(
            "It was changed by hand, or made by a version that was never released: put a backup of "
            "this version in its place, or add what is missing."
        )
        return Found(said % {"names": _few(missing)}, BAD, todo)
    return Found(_("The database is up to date."))


def _missing_columns() -> list[str]:
    """Return the columns of the models that the database has not, as `table.column`."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT table_name, column_name FROM information_schema.columns"
            " WHERE table_schema = current_schema()"
        )
        there = set(cursor.fetchall())
    models = [one for one in apps.get_models(include_auto_created=True) if one._meta.managed]
    wanted = {
        (one._meta.db_table, f.column) for one in models for f in one._meta.local_concrete_fields
    }
    return sorted(f"{table}.{column}" for table, column in wanted - there)


def _few(names: list[str]) -> str:
    return ", ".join(names[:5]) + (" …" if len(names) > 5 else "")


def look_at_versions() -> Found:
    """Say what Beacon runs on."""
    told = {
        "beacon": settings.BEACON_VERSION,
        "python": platform.python_version(),
        "django": django.get_version(),
        "celery": celery.__version__,
        "redis": _redis_version(),
    }
    said = _(
        "Beacon %(beacon)s on Python %(python)s, Django %(django)s, Celery %(celery)s, %(redis)s."
    )
    return Found(said % told)


def _redis_version() -> str:
    try:
        with redis.Redis.from_url(
            settings.REDIS_URL, socket_connect_timeout=0.5, socket_timeout=0.5
        ) as server:
            told = server.info("server")
    except redis.RedisError:
        return _("no Redis")
    name = "valkey" if "valkey_version" in told else "redis"
    return f"{name.capitalize()} {told.get(f'{name}_version', '?')}"


# --- settings -------------------------------------------------------------------------------------


def _risks() -> Iterator[str]:
    is_open = settings.BEACON_BIND not in LOOPBACK
    if is_open and not settings.BEACON_HTTPS:
        yield _(
            "Beacon listens beyond this machine without TLS: put a proxy before it (in a "
            "container: publish its port to 127.0.0.1 alone)."
        )
    if (is_open or settings.BEACON_HTTPS) and not settings.PRODUCTION:
        yield _("BEACON_ENV is local, though others can reach it: set it to production.")
    if is_open and settings.BEACON_TRUST_PROXY:
        yield _("BEACON_TRUST_PROXY believes whoever reaches Beacon without the proxy.")
    if "*" in settings.ALLOWED_HOSTS:
        yield _("ALLOWED_HOSTS lets any host name in: name yours.")
    if len(settings.SECRET_KEY) < 50:
        yield _("SECRET_KEY is short: make one of 50 characters or more.")
    if not User.objects.filter(is_staff=True, is_active=True).exists() and User.objects.exists():
        yield _("No account that is open may manage people and connections (staff).")
    if settings.PRODUCTION:
        told = run_checks(tags=[Tags.security], include_deployment_checks=True)
        yield from (f"{one.msg} ({one.id})" for one in told if not one.is_silenced())


def look_at_settings() -> Found:
    """See whether a setting opens a door."""
    risks = list(_risks())
    if not risks:
        return Found(_("No setting opens a door."))
    return Found(" ".join(risks), WARN, _("docs/settings.md says what each one does."))


# --- calls of a model -----------------------------------------------------------------------------


def look_at_reservations() -> Found:
    """See whether calls of a model that cannot be under way any more hold money back."""
    left = CallReservation.objects.filter(created__lte=timezone.now() - LIFETIME).count()
    if not left:
        return Found(_("No call holds money that it will not spend."))
    said = ngettext(
        "%(n)d call of a model is still reserved, though it must have ended.",
        "%(n)d calls of models are still reserved, though they must have ended.",
        left,
    )
    return Found(said % {"n": left}, WARN)


def mend_reservations() -> str:
    """Delete the reservations of calls that must have ended."""
    old = CallReservation.objects.filter(created__lte=timezone.now() - LIFETIME)
    return _("Reservations taken back: %(n)d.") % {"n": old.delete()[0]}


EXAMINATIONS = (
    Examination(
        "migrations", gettext_lazy("Migrations"),
        gettext_lazy(
            "Pages and runs fail on tables that are not as this version knows them; nor can "
            "anything else be looked at before."
        ),
        look_at_migrations, is_ground=True,
    ),
    Examination("versions", gettext_lazy("Versions"), "", look_at_versions),
    Examination(
        "settings", gettext_lazy("Settings"),
        gettext_lazy("Somebody else may read along, come in, or pass for another."),
        look_at_settings,
    ),
    Examination(
        "reservations", gettext_lazy("Reserved money"),
        gettext_lazy("They were left by a process that died, and are rows of nothing."),
        look_at_reservations, mend_reservations,
    ),
)  # fmt: skip
