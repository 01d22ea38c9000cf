"""URLs of the content store: items and snapshots."""

from __future__ import annotations

from django.urls import URLPattern, path

from memory.pages.content import snapshots
from memory.pages.content import views as content_views

_ONE = "content/<uuid:pk>/"
_SNAPSHOT = "content/snapshots/<uuid:pk>/"

urlpatterns: list[URLPattern] = [
    path("content/", content_views.content_list_page, name="content"),
    path("content/bulk/", content_views.content_bulk, name="content-bulk"),
    path("content/clear/", content_views.content_clear, name="content-clear"),
    path("content/put-back/", content_views.content_put_back, name="content-put-back"),
    path("content/snapshots/", snapshots.snapshot_list, name="content-snapshots"),
    path("content/snapshots/take/", snapshots.snapshot_take, name="content-snapshot-take"),
    path("content/snapshots/upload/", snapshots.snapshot_upload, name="content-snapshot-upload"),
    path(_SNAPSHOT, snapshots.snapshot, name="content-snapshot"),
    path(_SNAPSHOT + "restore/", snapshots.snapshot_restore, name="content-snapshot-restore"),
    path(_SNAPSHOT + "take-back/", snapshots.snapshot_take_back, name="content-snapshot-take-back"),
    path(_SNAPSHOT + "snapshot.json", snapshots.snapshot_json, name="content-snapshot-json"),
    path(_ONE, content_views.content_item, name="content-item"),
    path(_ONE + "raw/", content_views.content_raw, name="content-raw"),
    path(_ONE + "sensitivity/", content_views.content_sensitivity, name="content-sensitivity"),
]
