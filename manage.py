#!/usr/bin/env python
"""Django's command line, with the embedded servers behind it where no URL is set."""

from __future__ import annotations

import os
import sys

from django.core.management import execute_from_command_line

from beacon_site.embedded import EmbeddedError
from beacon_site.embedded.commands import servers_for


def main() -> None:
    """Run the command that was named."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "beacon_site.settings")
    try:
        with servers_for(sys.argv[1:]):
            execute_from_command_line(sys.argv)
    except EmbeddedError as exc:
        sys.exit(f"Beacon: {exc}")


if __name__ == "__main__":
    main()
