"""Beacon: wiring, and the leaves that both apps stand on.

Nothing is imported here: the extraction child and the launcher start from this package and must
be quick.  The Celery application is loaded by `research.apps`.
"""

__version__ = "0.1.0"  # said here alone: the wheel, the settings and CHANGELOG's heading follow
