"""The memory app."""

from __future__ import annotations

from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class MemoryConfig(AppConfig):
    """Records, and the rules for storing and finding them."""

    name = "memory"
    verbose_name = _("Memory")
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Register the hooks that follow changes of records, and create the first rows of new
        accounts.
        """
        from beacon_site import checks as checks
        from memory.accounts import people
        from memory.accounts.archive import jobs, memory_kinds
        from memory.models import accounts, files, remembered, search_index, topics
        from memory.services import topic_memory
        from memory.services.context import identity
        from memory.services.files import agent_folders, mirror, mirror_disk, reading
        from memory.services.records import traces
        from memory.services.review import contradictions
        from memory.services.search import bm25, embedding

        topics.Topic.ON_CHANGE.append(topic_memory.follow)
        topics.Topic.ON_RENAME.append(bm25.topic_renamed)
        topics.Topic.ON_PURGE.append(bm25.topic_purged)
        search_index.Recalled.ON_FOLLOW += [embedding.follow, contradictions.follow]
        files.MemoryFile.ON_CHANGE += [
            mirror.write_out,
            agent_folders.write_out,
            contradictions.close_edited,
        ]
        remembered.Remembered.BEFORE_PURGE.append(traces.prepare)
        accounts.ON_ACCOUNT_CREATE += [identity.make_first_notes, reading.make_first_files]
        accounts.ON_ACCOUNT_DELETE += [
            topic_memory.delete_copies,
            jobs.forget_owner,
            mirror_disk.forget,
            people.sweep,
        ]
        memory_kinds.register_kinds()
