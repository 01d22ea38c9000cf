"""Base class of Beacon's management commands."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.contrib.auth import get_user_model
from django.core.management.base import BaseCommand, CommandError
from django.db import connection

from beacon_site.embedded.commands import NOTHING_YET


class MigratedCommand(BaseCommand):
    """A command that needs a migrated database, and explains what to do without one."""

    def execute(self, *args: Any, **options: Any) -> str | None:
        """Run the command.  Raises CommandError if the database was never migrated."""
        if get_user_model()._meta.db_table not in connection.introspection.table_names():
            raise CommandError(NOTHING_YET.format(place=settings.DATA_DIR))
        return super().execute(*args, **options)
