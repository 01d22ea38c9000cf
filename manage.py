"""Django's command line, with the embedded servers behind it where no URL is set."""

from __future__ import annotations

import sys

from beacon_site.launcher.command import manage

#!/usr/bin/env python


if __name__ == "__main__":
    manage(sys.argv)
