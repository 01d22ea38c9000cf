#!/usr/bin/env python
"""Django's command line, with the embedded servers if no URL is set."""

from __future__ import annotations

import sys

from beacon_site.launcher.command import manage

if __name__ == "__main__":
    manage(sys.argv)
