"""A small typed client for Beacon's REST API.

from beacon_memory import Beacon

with Beacon("http://127.0.0.1:8000", token="bcn_…") as beacon:
    beacon.remember("The build needs Python 3.11.", tags=["build"])
    for hit in beacon.recall("which python"):
        print(hit.score, hit.content)
"""

from __future__ import annotations

from beacon_memory.client import Beacon
from beacon_memory.errors import BeaconError, NotReached, Refused
from beacon_memory.records import Entry, File, Hit, Report, Run, Written

__all__ = [
    "Beacon",
    "BeaconError",
    "Entry",
    "File",
    "Hit",
    "NotReached",
    "Refused",
    "Report",
    "Run",
    "Written",
]
