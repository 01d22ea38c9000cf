"""Addresses of the pages and acts of one remembered record."""

from __future__ import annotations

from django.urls import URLPattern, path

from memory.records.acts import ACTS
from memory.views import forgetting, notes_merge, record, record_acts, record_edit

_NOTE = {"type": "note"}
_OBSERVATION = {"type": "observation"}
_ONE = "records/<str:type>/<uuid:pk>/"

_pages = [
    path("notes/new/", record_edit.note_new, name="note-new"),
    path("notes/merge/", notes_merge.merge, name="notes-merge"),
    path("notes/<uuid:pk>/", record.record, _NOTE, name="note"),
    path("notes/<uuid:pk>/edit/", record_edit.edit, _NOTE, name="note-edit"),
    path("notes/<uuid:pk>/history/", record.history, _NOTE, name="note-history"),
    path("notes/<uuid:pk>/supersede/", record_edit.supersede, name="note-supersede"),
    path("notes/<uuid:pk>/unsupersede/", notes_merge.unsupersede, name="note-unsupersede"),
    path("observations/new/", record_edit.observation_new, name="observation-new"),
    path("observations/<uuid:pk>/", record.record, _OBSERVATION, name="observation"),
    path("observations/<uuid:pk>/edit/", record_edit.edit, _OBSERVATION, name="observation-edit"),
    path(
        "observations/<uuid:pk>/history/", record.history, _OBSERVATION, name="observation-history"
    ),
]

_acts = [
    path(f"{_ONE}{name}/", record_acts.act, {"act": name}, name=f"record-{name}") for name in ACTS
]

_more = [
    path(_ONE + "purge/", record_acts.purge, name="record-purge"),
    path(_ONE + "undo/<int:revision>/", record_acts.undo, name="record-undo"),
    path(
        _ONE + "restore/<int:revision>/",
        record_acts.restore_revision,
        name="record-restore-revision",
    ),
    path("forget/", forgetting.forget, name="source-forget"),
    path("forget/<uuid:key>/undo/", forgetting.undo, name="forgotten-undo"),
]

urlpatterns: list[URLPattern] = [*_pages, *_acts, *_more]
