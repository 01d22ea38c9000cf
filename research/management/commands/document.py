"""`manage.py document`: generate the pages of docs/reference/ from the code."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand

from research.management.reference import PAGES, stale


class Command(BaseCommand):
    """Write the pages that differ. Needs no database."""

    help = "Generate the docs/reference/ pages from the code (make docs)."
    requires_system_checks = ()

    def handle(self, *args: Any, **options: Any) -> None:
        """Write the pages, and print what happened to each."""
        folder = Path(settings.BASE_DIR) / "docs" / "reference"
        folder.mkdir(parents=True, exist_ok=True)
        changed = stale(folder)
        for name, text in changed.items():
            (folder / name).write_text(text, encoding="utf-8")
        for name in PAGES:
            said = "renewed" if name in changed else "unchanged"
            self.stdout.write(f"docs/reference/{name}: {said}")
