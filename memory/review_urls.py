"""Addresses of Review and its levels."""

from __future__ import annotations

from django.urls import URLPattern, path

from memory.views import review

urlpatterns: list[URLPattern] = [
    path("review/", review.review_list, name="review"),
    path("review/decide/", review.review_bulk, name="review-bulk"),
    path("review/put-back/", review.review_put_back, name="review-put-back"),
    path("review/<uuid:pk>/", review.proposal, name="proposal"),
    path("review/<uuid:pk>/accept/", review.proposal_accept, name="proposal-accept"),
    path("review/<uuid:pk>/reject/", review.proposal_reject, name="proposal-reject"),
    path("settings/review/", review.review_levels, name="review-levels"),
]
