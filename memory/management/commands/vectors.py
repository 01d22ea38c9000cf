"""`manage.py vectors`: let the database compare embeddings, if it can."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand

from memory.services.search import embedding
from memory.services.search.vectors import prepare


class Command(BaseCommand):
    """Create or repair the extension, the embedding tables and their index; safe to run again."""

    help = "Create the tables for semantic search, if the database has pgvector."

    def handle(self, *args: Any, **options: Any) -> None:
        """Print what the database can do now."""
        embedding.forget_model_if_off()
        version, tables, why = prepare()
        if not version:
            self.stdout.write(
                f"The “vector” extension can’t be used ({why}), so search matches words only."
            )
            return
        held = ", ".join(f"{n} of {size} figures" for size, n in tables.items())
        self.stdout.write(f"vector {version}: {held or 'no vectors yet'}.")
