"""URLs of memory files: `/files/facts/user.md/`, and actions on a file below it."""

from __future__ import annotations

from django.urls import URLPattern, path, register_converter

from memory.pages.files import views as file_views


class FilePath:
    """The closed set of virtual paths (memory.core.file_format); any other path is a 404."""

    regex = r"facts/(?:user|memory)\.md|episodes/[12][0-9]{3}-(?:0[1-9]|1[0-2])\.md"

    def to_python(self, value: str) -> str:
        return value

    def to_url(self, value: str) -> str:
        return value


register_converter(FilePath, "memoryfile")
_ONE = "files/<memoryfile:path>/"

urlpatterns: list[URLPattern] = [
    path("files/", file_views.file_list, name="files"),
    path("files/new/", file_views.episode_new, name="episode-new"),
    path(_ONE, file_views.file_page, name="file"),
    path(_ONE + "source/", file_views.file_source, name="file-source"),
    path(_ONE + "edit/", file_views.edit, name="file-edit"),
    path(_ONE + "preview/", file_views.preview, name="file-preview"),
    path(_ONE + "draft/", file_views.draft, name="file-draft"),
    path(_ONE + "history/", file_views.history, name="file-history"),
    path(_ONE + "compare/", file_views.compare, name="file-compare"),
    path(_ONE + "restore/", file_views.restore, name="file-restore"),
    path(_ONE + "blame/", file_views.blame, name="file-blame"),
    path(_ONE + "timeline/", file_views.timeline, name="file-timeline"),
    path(_ONE + "lock/", file_views.lock, name="file-lock"),
    path(_ONE + "condense/", file_views.condense, name="file-condense"),
]
