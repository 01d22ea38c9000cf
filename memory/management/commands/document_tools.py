"""Write the tools' part of docs/agents.md anew from the registry: `manage.py document_tools`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand

from memory.toolkit.docs import renewed


class Command(BaseCommand):
    """Renew the page; needs no database."""

    help = "Write the tools' part of docs/agents.md anew."
    requires_system_checks = ()

    def handle(self, *args: Any, **options: Any) -> None:
        """Renew the page, and say whether anything changed."""
        page = Path(settings.BASE_DIR) / "docs" / "agents.md"
        before = page.read_text()
        after = renewed(before)
        page.write_text(after)
        self.stdout.write("docs/agents.md: " + ("as it was" if after == before else "renewed"))
