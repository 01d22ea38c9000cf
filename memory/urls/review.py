"""URLs of Review, its rules, and conflicts."""

from __future__ import annotations

from django.urls import URLPattern, path

from memory.pages import conflicts
from memory.pages.review import views as review_views

urlpatterns: list[URLPattern] = [
    path("review/", review_views.review_list, name="review"),
    path("review/decide/", review_views.review_bulk, name="review-bulk"),
    path("review/put-back/", review_views.review_put_back, name="review-put-back"),
    path("review/quarantine/", review_views.quarantine, name="quarantine"),
    path("review/quarantine/act/", review_views.quarantine_act, name="quarantine-act"),
    path("review/quarantine/undo/", review_views.quarantine_undo, name="quarantine-undo"),
    path("review/refused/", review_views.refused_sources, name="refused-sources"),
    path("review/refused/<uuid:pk>/allow/", review_views.source_allow, name="source-allow"),
    path("review/never/<str:kind>/<uuid:pk>/", review_views.source_refuse, name="source-refuse"),
    path("review/<uuid:pk>/", review_views.proposal, name="proposal"),
    path("review/<uuid:pk>/accept/", review_views.proposal_accept, name="proposal-accept"),
    path("review/<uuid:pk>/reject/", review_views.proposal_reject, name="proposal-reject"),
    path("conflicts/", conflicts.conflicts, name="conflicts"),
    path("conflicts/undo/", conflicts.conflicts_undo, name="conflicts-undo"),
    path("conflicts/keep-both/", conflicts.conflicts_bulk, name="conflicts-bulk"),
    path("conflicts/look/", conflicts.conflicts_look, name="conflicts-look"),
    path("conflicts/<uuid:pk>/", conflicts.conflict, name="conflict"),
    path("conflicts/<uuid:pk>/settle/", conflicts.conflict_settle, name="conflict-settle"),
    path("settings/review/", review_views.review_levels, name="review-levels"),
]
