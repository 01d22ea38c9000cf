"""URLs of the scratchpad, recall, context and Trash, and the general URL of every record."""

from __future__ import annotations

from django.urls import URLPattern, path

from memory.pages import context, recall, scratchpad
from memory.pages.records import views as record_views
from memory.pages.trash import views as trash_views

urlpatterns: list[URLPattern] = [
    path("scratchpad/", scratchpad.scratchpad_list, name="scratchpad"),
    path("scratchpad/new/", scratchpad.scratchpad_new, name="scratchpad-new"),
    path("scratchpad/<uuid:pk>/", scratchpad.scratchpad_edit, name="scratchpad-edit"),
    path("recall/", recall.recall, name="recall"),
    path("recall/<str:kind>", recall.recall_file, name="recall-file"),
    path("context/", context.context, name="context"),
    path("context/context.txt", context.context_text, name="context-text"),
    path("trash/", trash_views.trash, name="trash"),
    path("trash/restore/", trash_views.trash_restore, name="trash-restore"),
    path("trash/take-back/<str:key>/", trash_views.trash_take_back, name="trash-take-back"),
    path("trash/empty/", trash_views.trash_empty, name="trash-empty"),
    path("records/<str:kind>/<uuid:pk>/", record_views.record_open, name="record-open"),
]
