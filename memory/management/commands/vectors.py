"""Let the database compare vectors, where it can: `manage.py vectors`."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand

from memory.search import embedding
from memory.search.vectors import prepare


class Command(BaseCommand):
    """Make or mend the extension, the tables of vectors and their index; safe to run again."""

    help = "Make the tables in which vectors are compared, if the database has pgvector."

    def handle(self, *args: Any, **options: Any) -> None:
        """Say what the database can do now."""
        embedding.set_aside_if_off()
        prepared = prepare()
        if not prepared.version:
            self.stdout.write(
                f"No extension “vector” ({prepared.why}): recall finds by words alone."
            )
            return
        held = ", ".join(f"{n} of {size} figures" for size, n in prepared.tables.items())
        self.stdout.write(f"vector {prepared.version}: {held or 'no vectors yet'}.")
