"""`manage.py doctor [--fix] [--json] [--quick]`: what has drifted, why it matters, what to do."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from typing import Any

from django.core.management.base import CommandParser
from django.utils.translation import gettext as _

from beacon_site.management_base import MigratedCommand
from memory.doctor import examining
from memory.doctor.checkup import BAD, GOOD, WARN
from memory.doctor.examining import Finding

WORDS = {GOOD: "ok", WARN: "warning", BAD: "error"}  # as programs read them, too
WIDTH = max(map(len, WORDS.values()))


class Command(MigratedCommand):
    """Look at everything; the exit code is 1 if there is an error (left, with --fix)."""

    help = "Find what has drifted apart although it belongs together, explain it, and mend it."

    def add_arguments(self, parser: CommandParser) -> None:
        """Take what to do, and how to tell it."""
        parser.add_argument("--fix", action="store_true", help="mend what can be mended")
        parser.add_argument("--json", action="store_true", help="tell it to a program")
        parser.add_argument("--quick", action="store_true", help="do not read every record")

    def handle(self, *args: Any, **options: Any) -> None:
        """Look, tell, and end with 1 where something is wrong."""
        found = examining.examine(fix=options["fix"], quick=options["quick"])
        errors, warnings = examining.errors(found), examining.warnings(found)
        if options["json"]:
            told = [asdict(one) | {"state": WORDS[one.state]} for one in found]
            whole = {"errors": errors, "warnings": warnings, "findings": told}
            self.stdout.write(json.dumps(whole, indent=1, ensure_ascii=False))
        else:
            for one in found:
                self._tell(one)
            summary = _("Errors: %(errors)d, warnings: %(warnings)d, looked at: %(all)d.")
            told_at_last = {"errors": errors, "warnings": warnings, "all": len(found)}
            self.stdout.write(summary % told_at_last)
        if errors:
            sys.exit(1)

    def _tell(self, one: Finding) -> None:
        """Write one thing: a line for what is well, and what to do beneath it for what is not."""
        word = WORDS[one.state].ljust(WIDTH)
        if one.state != GOOD:
            word = self.style.ERROR(word) if one.state == BAD else self.style.WARNING(word)
        self.stdout.write(f"{word}  {one.name}: {one.said}")
        more = (
            (_("why it matters"), one.matters),
            (_("what to do"), one.todo),
            (_("mended"), one.mended),
        )
        for label, text in more:
            if text:
                self.stdout.write(f"{' ' * WIDTH}    {label}: {text}")
