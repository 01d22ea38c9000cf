"""Addresses of memory files: `/files/facts/user.md/`, and what is done with one below it."""

from __future__ import annotations

from django.urls import URLPattern, path, register_converter

from memory.views import file_condense, file_edit, file_episode, file_history, file_locks, files


class FilePath:
    """The closed set of virtual paths (memory.file_texts.paths); any other address is not found."""

    regex = r"facts/(?:user|memory)\.md|episodes/[12][0-9]{3}-(?:0[1-9]|1[0-2])\.md"

    def to_python(self, value: str) -> str:
        """Return the path as it stands in the address."""
        return value

    def to_url(self, value: str) -> str:
        """Return the path as it stands in an address."""
        return value


register_converter(FilePath, "memoryfile")
_ONE = "files/<memoryfile:path>/"

urlpatterns: list[URLPattern] = [
    path("files/", files.file_list, name="files"),
    path("files/new/", file_episode.episode_new, name="episode-new"),
    path(_ONE, files.file_page, name="file"),
    path(_ONE + "source/", files.file_source, name="file-source"),
    path(_ONE + "edit/", file_edit.edit, name="file-edit"),
    path(_ONE + "preview/", file_edit.preview, name="file-preview"),
    path(_ONE + "draft/", file_edit.draft, name="file-draft"),
    path(_ONE + "history/", file_history.history, name="file-history"),
    path(_ONE + "compare/", file_history.compare, name="file-compare"),
    path(_ONE + "restore/", file_history.restore, name="file-restore"),
    path(_ONE + "blame/", file_history.blame, name="file-blame"),
    path(_ONE + "timeline/", file_history.timeline, name="file-timeline"),
    path(_ONE + "lock/", file_locks.lock, name="file-lock"),
    path(_ONE + "condense/", file_condense.condense, name="file-condense"),
]
