"""bandit over all that runs where Beacon does, for `make lint`; exit code 1 if it objects.

It warns of every `nosec` on a line to which only some of its tests object, which is useless.
"""

from __future__ import annotations

import logging
import sys

from bandit.cli.main import main

CHECKED = ("beacon_site", "memory", "research", "clients", "scripts", "manage.py")

if __name__ == "__main__":
    logging.disable(logging.WARNING)
    sys.argv = ["bandit", "--quiet", "--configfile", "pyproject.toml", "--recursive", *CHECKED]
    main()
