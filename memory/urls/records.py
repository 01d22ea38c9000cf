"""URLs of pages and actions for one record."""

from __future__ import annotations

from django.urls import URLPattern, path

from memory.pages.records import editing
from memory.pages.records import views as record_views
from memory.pages.trash import views as trash_views
from memory.records.acts import ACTS

_NOTE = {"type": "note"}
_OBSERVATION = {"type": "observation"}
_ONE = "records/<str:type>/<uuid:pk>/"

_pages = [
    path("notes/new/", editing.note_new, name="note-new"),
    path("notes/merge/", record_views.merge, name="notes-merge"),
    path("notes/<uuid:pk>/", record_views.record, _NOTE, name="note"),
    path("notes/<uuid:pk>/edit/", editing.edit_record, _NOTE, name="note-edit"),
    path("notes/<uuid:pk>/history/", record_views.history, _NOTE, name="note-history"),
    path("notes/<uuid:pk>/supersede/", editing.supersede, name="note-supersede"),
    path("notes/<uuid:pk>/unsupersede/", record_views.unsupersede, name="note-unsupersede"),
    path("observations/new/", editing.observation_new, name="observation-new"),
    path("observations/<uuid:pk>/", record_views.record, _OBSERVATION, name="observation"),
    path(
        "observations/<uuid:pk>/edit/", editing.edit_record, _OBSERVATION, name="observation-edit"
    ),
    path(
        "observations/<uuid:pk>/history/",
        record_views.history,
        _OBSERVATION,
        name="observation-history",
    ),
]

_acts = [
    path(f"{_ONE}{name}/", record_views.act, {"act": name}, name=f"record-{name}") for name in ACTS
]

_more = [
    path(_ONE + "purge/", record_views.purge, name="record-purge"),
    path(_ONE + "undo/<int:revision>/", record_views.undo, name="record-undo"),
    path(
        _ONE + "restore/<int:revision>/",
        record_views.restore_revision,
        name="record-restore-revision",
    ),
    path("forget/", trash_views.forget, name="source-forget"),
    path("forget/<uuid:key>/undo/", trash_views.undo, name="forgotten-undo"),
]

urlpatterns: list[URLPattern] = [*_pages, *_acts, *_more]
