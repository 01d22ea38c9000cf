"""The app that holds what is known."""

from __future__ import annotations

from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class MemoryConfig(AppConfig):
    """What is known, and the rules for knowing it."""

    name = "memory"
    verbose_name = _("Memory")
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Register the hooks that follow changes of records, and the first rows of new accounts."""
        from beacon_site import checks as checks
        from memory.accounts import deletion
        from memory.archive import jobs, memory_kinds
        from memory.contexts import identity
        from memory.files import first, mirror, mirror_account
        from memory.models import base, files, searchable, topics, users
        from memory.recall import embedding, reindex
        from memory.topics import publishing
        from memory.trash import traces

        topics.Topic.ON_CHANGE.append(publishing.follow)
        topics.Topic.ON_RENAME.append(reindex.topic_renamed)
        topics.Topic.ON_PURGE.append(reindex.topic_purged)
        searchable.Recalled.ON_FOLLOW.append(embedding.follow)
        files.MemoryFile.ON_CHANGE.append(mirror.write_out)
        base.Remembered.BEFORE_PURGE.append(traces.prepare)
        users.FIRST_ROWS += [identity.make_first_notes, first.make_first_files]
        users.LAST_ACTS += [
            publishing.take_down,
            jobs.forget_owner,
            mirror_account.forget,
            deletion.sweep,
        ]
        memory_kinds.register_kinds()
