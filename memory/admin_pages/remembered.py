"""What is remembered, in the admin: notes, observations, the scratchpad and what serves them."""

from __future__ import annotations

from django.contrib import admin

from memory import models as memory
from memory.admin_pages.base import ReadOnlyAdmin, RememberedAdmin


@admin.register(memory.Note)
class NoteAdmin(RememberedAdmin):
    """Notes of all accounts."""

    list_display = (
        "label", "owner", "kind", "stability", "trust", "expires_at", "updated", "trashed_at",
    )  # fmt: skip
    list_filter = ("kind", "stability", "trust", "sensitivity")
    search_fields = ("source", "owner__username")
    MASKED = ("content", "tags", "evidence")
    PAGE = ("memory:note", ("pk",))


@admin.register(memory.Observation)
class ObservationAdmin(RememberedAdmin):
    """Observations of all accounts."""

    list_display = ("label", "owner", "category", "source", "trust", "updated", "trashed_at")
    list_filter = ("category", "trust", "sensitivity")
    search_fields = ("source", "owner__username")
    MASKED = ("content", "tags")
    PAGE = ("memory:observation", ("pk",))


@admin.register(memory.ScratchpadEntry)
class ScratchpadEntryAdmin(RememberedAdmin):
    """Scratchpads of all accounts."""

    list_display = ("label", "owner", "scope", "updated", "trashed_at")
    search_fields = ("scope", "owner__username")
    ordering = ("-updated",)  # not by key, as the model: that is masked
    MASKED = ("key", "value")


@admin.register(memory.MemoryFile)
class MemoryFileAdmin(RememberedAdmin):
    """Memory files of all accounts."""

    list_display = ("label", "owner", "size", "version", "lock", "trust", "updated", "trashed_at")
    list_filter = ("lock", "trust", "sensitivity")
    search_fields = ("path", "owner__username")
    MASKED = ("content", "summary", "section_locks")
    PAGE = ("memory:file", ("path",))


@admin.register(memory.Section)
class SectionAdmin(ReadOnlyAdmin):
    """Sections of memory files, as recall finds them."""

    list_display = ("label", "owner", "file", "position", "updated")
    list_select_related = ("owner", "file")
    search_fields = ("file__path", "owner__username")
    MASKED = ("content", "heading")


@admin.register(memory.FileEntry)
class FileEntryAdmin(RememberedAdmin):
    """Sections that memory files lost, as they lie in the trash."""

    list_display = ("label", "owner", "path", "removed_in", "trust", "updated", "trashed_at")
    list_filter = ("trust", "sensitivity")
    search_fields = ("path", "owner__username")
    MASKED = ("content", "heading")
    PAGE = ("memory:file", ("path",))


@admin.register(memory.FileDraft)
class FileDraftAdmin(ReadOnlyAdmin):
    """What people typed into a file's editor and have not saved; whose words they are is all."""

    list_display = ("path", "owner", "seen", "updated")
    search_fields = ("path", "owner__username")
    list_select_related = ("owner",)
    SECRET = ("content", "note")


@admin.register(memory.MirroredFile)
class MirroredFileAdmin(ReadOnlyAdmin):
    """How far the copy of each file on disk is."""

    list_display = ("path", "owner", "version", "problem", "at")
    search_fields = ("path", "owner__username")
    list_select_related = ("owner",)


@admin.register(memory.MirrorFolder)
class MirrorFolderAdmin(ReadOnlyAdmin):
    """The folder of the copies on disk, and whose files lie at its root."""

    list_display = ("identity", "root", "problem")
    list_select_related = ("root",)


@admin.register(memory.PutAway)
class PutAwayAdmin(ReadOnlyAdmin):
    """What lies in the trash along with a run and is no record; what it says is its owner's."""

    list_display = ("record_type", "record_id", "owner", "created")
    list_filter = ("record_type",)
    search_fields = ("owner__username",)
    list_select_related = ("owner",)
    SECRET = ("rows",)


@admin.register(memory.SavedView)
class SavedViewAdmin(ReadOnlyAdmin):
    """Views of lists that people saved."""

    list_display = ("owner", "page", "created")
    list_filter = ("page",)
    search_fields = ("owner__username",)
    list_select_related = ("owner",)


@admin.register(memory.SourceRule)
class SourceRuleAdmin(ReadOnlyAdmin):
    """Places that all topics of a person block, boost or mute."""

    list_display = ("owner", "act", "created")
    list_filter = ("act",)
    search_fields = ("owner__username",)
    list_select_related = ("owner",)


@admin.register(memory.BulkAct)
class BulkActAdmin(ReadOnlyAdmin):
    """Acts on many records at once, and how far they are."""

    list_display = ("owner", "page", "act", "state", "done", "total", "created")
    list_filter = ("state", "page", "act")
    search_fields = ("owner__username",)
    list_select_related = ("owner",)


@admin.register(memory.Embedding)
class EmbeddingAdmin(ReadOnlyAdmin):
    """Vectors of what records say."""

    list_display = ("object_id", "owner", "record_type", "model", "dimensions")
    list_filter = ("record_type", "model")
    search_fields = ("object_id", "owner__username")
    list_select_related = ("owner",)


@admin.register(memory.EmbeddingDue)
class EmbeddingDueAdmin(ReadOnlyAdmin):
    """Records that wait for a vector."""

    list_display = ("object_id", "owner", "record_type", "tries", "not_before")
    list_filter = ("record_type",)
    search_fields = ("object_id", "owner__username")
    list_select_related = ("owner",)
