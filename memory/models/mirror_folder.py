"""The folder that holds a copy of memory files (`BEACON_MIRROR_DIR`): whose it is, how it is."""

from __future__ import annotations

import uuid

from django.db import models

ONLY = 1  # its key: there is one


class MirrorFolder(models.Model):
    """The one folder of this Beacon.

    `identity` stands in the folder's file `.beacon`, too, so that two Beacons never write into one
    folder.  `root` is the account whose files lie at its root: the first that there was.
    `place` is where it lay when it was last used.  `problem` says why nothing is written or
    taken in; empty while all is well.
    """

    id = models.PositiveSmallIntegerField(primary_key=True, default=ONLY, editable=False)
    identity = models.UUIDField(default=uuid.uuid4)
    root = models.ForeignKey("memory.User", models.SET_NULL, null=True, related_name="+")
    place = models.TextField(blank=True)
    problem = models.TextField(blank=True)
    git_problem = models.TextField(blank=True)  # why BEACON_MIRROR_GIT makes no commits

    def __str__(self) -> str:
        return str(self.identity)
