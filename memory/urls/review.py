"""Addresses of Review and its levels, and of the conflict desk."""

from __future__ import annotations

from django.urls import URLPattern, path

from memory.views import conflicts, quarantine, refusing, review

urlpatterns: list[URLPattern] = [
    path("review/", review.review_list, name="review"),
    path("review/decide/", review.review_bulk, name="review-bulk"),
    path("review/put-back/", review.review_put_back, name="review-put-back"),
    path("review/quarantine/", quarantine.quarantine, name="quarantine"),
    path("review/quarantine/act/", quarantine.quarantine_act, name="quarantine-act"),
    path("review/quarantine/undo/", quarantine.quarantine_undo, name="quarantine-undo"),
    path("review/refused/", refusing.refused_sources, name="refused-sources"),
    path("review/refused/<uuid:pk>/allow/", refusing.source_allow, name="source-allow"),
    path("review/never/<str:kind>/<uuid:pk>/", refusing.source_refuse, name="source-refuse"),
    path("review/<uuid:pk>/", review.proposal, name="proposal"),
    path("review/<uuid:pk>/accept/", review.proposal_accept, name="proposal-accept"),
    path("review/<uuid:pk>/reject/", review.proposal_reject, name="proposal-reject"),
    path("conflicts/", conflicts.conflicts, name="conflicts"),
    path("conflicts/undo/", conflicts.conflicts_undo, name="conflicts-undo"),
    path("conflicts/keep-both/", conflicts.conflicts_bulk, name="conflicts-bulk"),
    path("conflicts/look/", conflicts.conflicts_look, name="conflicts-look"),
    path("conflicts/<uuid:pk>/", conflicts.conflict, name="conflict"),
    path("conflicts/<uuid:pk>/settle/", conflicts.conflict_settle, name="conflict-settle"),
    path("settings/review/", review.review_levels, name="review-levels"),
]
