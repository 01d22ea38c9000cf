"""Beacon's settings and servers, and the libraries that both apps use.

Nothing slow is imported here, because the extraction child and the launcher start from this package and
must be quick.  `research.apps` loads the Celery application.
"""

import gc

# Loading Beacon makes a million objects that stay.  A look for garbage after every 700 of them, as
# by default, took a quarter of each start.
gc.set_threshold(50_000, 20, 50)

__version__ = "0.1.0"  # the only place; the wheel, the settings and CHANGELOG's heading follow it
