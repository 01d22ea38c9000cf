"""The app that holds what is known."""

from __future__ import annotations

import importlib

from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class MemoryConfig(AppConfig):
    """What is known, and the rules for knowing it."""

    name = "memory"
    verbose_name = _("Memory")
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Let who follows changes of records follow them, and accounts get what they start with."""
        publishing = importlib.import_module("memory.topics.publishing")
        topics = importlib.import_module("memory.models.topics")
        topics.Topic.ON_CHANGE.append(publishing.follow)
        following = importlib.import_module("memory.recall.reindex")
        topics.Topic.ON_RENAME.append(following.topic_renamed)
        topics.Topic.ON_PURGE.append(following.topic_purged)
        recalled = importlib.import_module("memory.models.searchable")
        recalled.Recalled.ON_FOLLOW.append(
            importlib.import_module("memory.recall.embedding").follow
        )
        users = importlib.import_module("memory.models.users")
        users.FIRST_ROWS.append(
            importlib.import_module("memory.contexts.identity").make_first_notes
        )
        users.FIRST_ROWS.append(importlib.import_module("memory.files.first").make_first_files)
        users.LAST_ACTS.append(publishing.take_down)
        users.LAST_ACTS.append(importlib.import_module("memory.archive.jobs").forget_owner)
        users.LAST_ACTS.append(importlib.import_module("memory.files.mirror_account").forget)
        users.LAST_ACTS.append(importlib.import_module("memory.accounts.deletion").sweep)
        files = importlib.import_module("memory.models.files")
        files.MemoryFile.ON_CHANGE.append(importlib.import_module("memory.files.mirror").write_out)
        base = importlib.import_module("memory.models.base")
        base.Remembered.BEFORE_PURGE.append(importlib.import_module("memory.trash.traces").prepare)
        importlib.import_module("memory.archive.memory_kinds").register_kinds()
        importlib.import_module("beacon_site.checks")
