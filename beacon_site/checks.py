"""Beacon's system checks: `manage.py check --deploy --database default`.

The checks of settings are deployment checks.  The checks of the database and Redis run with
`--database`, before `migrate`, and before `verify`.
"""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from django.apps import apps
from django.conf import settings
from django.core.checks import CheckMessage, Error, Tags, Warning, register
from django.db import connection
from django.db.migrations.loader import MigrationLoader
from django.utils.translation import gettext as _

from beacon_site import health
from beacon_site.embedded.places import BY_HAND

LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost", ""})
PRIVATE = ("secret_key", "beacon.env", "state.json")


@register(Tags.security, deploy=True)
def exposed(app_configs: Any, **kwargs: Any) -> list[CheckMessage]:
    """Warn about settings that let others eavesdrop or get in."""
    is_open = settings.BEACON_BIND not in LOOPBACK
    local = (is_open or settings.BEACON_HTTPS) and not settings.PRODUCTION
    risks = [
        (is_open and not settings.BEACON_HTTPS,
         _("Other machines can reach Beacon without TLS."),
         _("Put a TLS proxy in front of Beacon. In a container, publish the port to 127.0.0.1 only.")),
        (local, _("BEACON_ENV is local, but other machines can reach Beacon."),
         _("Set BEACON_ENV=production.")),
        (is_open and settings.BEACON_TRUST_PROXY,
         _("With BEACON_TRUST_PROXY, anyone who bypasses the proxy can spoof their IP address."),
         _("Set BEACON_BIND to an address that only the proxy can reach.")),
        ("*" in settings.ALLOWED_HOSTS, _("ALLOWED_HOSTS accepts any host name."), _("List only your own host names.")),
        (len(settings.SECRET_KEY) < 50, _("SECRET_KEY is too short."), _("Use 50 characters or more.")),
    ]  # fmt: skip
    return [
        Warning(text, hint=hint, id=f"beacon.W00{number}")
        for number, (is_risky, text, hint) in enumerate(risks, start=1)
        if is_risky
    ]


@register(Tags.security, deploy=True)
def private_files(app_configs: Any, **kwargs: Any) -> list[CheckMessage]:
    """Report secrets in the data folder that other users of the machine can read."""
    results: list[CheckMessage] = []
    for name in PRIVATE:
        path = Path(settings.DATA_DIR) / name
        try:
            is_readable = bool(path.stat().st_mode & 0o077)
        except OSError:  # missing, or in a folder that others can't enter
            continue
        if is_readable:
            text = _(
                "Other users of this machine can read %(path)s and use it to sign in as anyone."
            )
            hint = _("Run: chmod 600 %(path)s")
            values = {"path": path}
            results.append(Error(text % values, hint=hint % values, id="beacon.E001"))
    return results


@register
def backups(app_configs: Any = None, **kwargs: Any) -> list[CheckMessage]:
    """Report a bucket for backups that can't be used because its packages aren't installed."""
    if not settings.BEACON_BACKUP_S3_BUCKET or (find_spec("storages") and find_spec("boto3")):
        return []
    text = _("BEACON_BACKUP_S3_BUCKET is set, but django-storages and boto3 aren’t installed.")
    hint = _("Run: pip install --require-hashes -r requirements/extras.txt")
    return [Error(text, hint=hint, id="beacon.E002")]


@register
def chromium(app_configs: Any = None, **kwargs: Any) -> list[CheckMessage]:
    """Warn if the Chromium for pages that need JavaScript isn't there."""
    path = settings.BEACON_CHROMIUM
    if not path or os.access(path, os.X_OK):
        return []
    text = _("BEACON_CHROMIUM is %(path)s, which isn’t an executable file.")
    hint = _("Set BEACON_CHROMIUM to the path of a Chromium executable, or leave it empty.")
    return [Warning(text % {"path": path}, hint=hint, id="beacon.W013")]


@register(Tags.database)
def tables(app_configs: Any = None, databases: Any = None, **kwargs: Any) -> list[CheckMessage]:
    """Warn about a database that a newer version migrated, or that lacks columns of this version.

    If migrations are still to be applied, there is no warning, since `migrate` runs this check first.
    """
    if not databases:
        return []
    loader = MigrationLoader(connection)
    foreign = sorted(loader.applied_migrations.keys() - loader.disk_migrations.keys())
    if foreign:
        text = _(
            "A newer version of Beacon has changed this database. Unknown migrations: %(names)s."
        )
        hint = _("Install the newer version, or restore a backup created by this version.")
        names = _few([f"{app}.{name}" for app, name in foreign])
        return [Warning(text % {"names": names}, hint=hint, id="beacon.W010")]
    if loader.disk_migrations.keys() - loader.applied_migrations.keys():
        return []
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT table_name, column_name FROM information_schema.columns"
            " WHERE table_schema = current_schema()"
        )
        columns = set(cursor.fetchall())
    models = [model for model in apps.get_models(include_auto_created=True) if model._meta.managed]
    wanted = {
        (model._meta.db_table, field.column)
        for model in models
        for field in model._meta.local_concrete_fields
    }
    missing = sorted(f"{table}.{column}" for table, column in wanted - columns)
    if not missing:
        return []
    text = _("All migrations have been applied, but columns are missing: %(names)s.")
    hint = _(
        "The tables were changed outside Beacon. Restore a backup, or add the missing columns."
    )
    return [Warning(text % {"names": _few(missing)}, hint=hint, id="beacon.W011")]


@register(Tags.database)
def redis(app_configs: Any, databases: Any = None, **kwargs: Any) -> list[CheckMessage]:
    """Warn when Redis doesn't answer."""
    if not databases or not (problem := health.redis_problem()):
        return []
    text = _("Redis isn’t responding (%(why)s). Runs wait until it responds.") % {"why": problem}
    hint = _("Start the server at REDIS_URL. “%(make)s up” starts the one included with Beacon.")
    return [Warning(text, hint=hint % BY_HAND, id="beacon.W012")]


def _few(names: list[str]) -> str:
    return ", ".join(names[:5]) + (" …" if len(names) > 5 else "")
