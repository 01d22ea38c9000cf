"""Beacon's settings and servers, and the libraries that both apps use.

Nothing is imported here, because the extraction child and the launcher start from this package and
must be quick.  `research.apps` loads the Celery application.
"""

__version__ = "0.1.0"  # the only place; the wheel, the settings and CHANGELOG's heading follow it
