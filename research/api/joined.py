"""The API under `/api/v1/`, joined from memory's and research's resources."""

from __future__ import annotations

from django.conf import settings
from django.utils.translation import gettext_lazy as _

from memory.api import (
    content,
    files,
    library,
    notes,
    observations,
    recall,
    review,
    scratchpad,
    sessions,
    trash,
)
from memory.api import settings as api_settings
from memory.api.frame import BeaconAPI
from research.api import hooks, reports, runs, shared, topics
from research.models import RunAlreadyActive
from research.services.runs.execution.starting import RunNotAllowed

api = BeaconAPI(
    title="Beacon",
    version=settings.BEACON_VERSION,
    urls_namespace="research:api-1.0.0",
    description=str(
        _(
            "Beacon’s REST API. Send a token with every request (Authorization: Bearer bcn_…). Errors are application/problem+json. For curl examples, see docs/api.md."
        )
    ),
)
for _kind in (RunAlreadyActive, RunNotAllowed):
    api.add_exception_handler(_kind, lambda _request, exc: runs.refusal(exc).answer())

api.add_router("/notes", notes.api)
api.add_router("/observations", observations.api)
api.add_router("/sessions", sessions.api)
api.add_router("/recall", recall.api)
api.add_router("/recall/ratings", recall.ratings_api)
api.add_router("/related", recall.related_api)
api.add_router("/about", recall.about_api)
api.add_router("/scratchpad", scratchpad.api)
api.add_router("/content", content.api)
api.add_router("/library", library.api)
api.add_router("/topics", topics.api)
api.add_router("/topics", topics.sources_api)
api.add_router("/topics", reports.since_read_api)
api.add_router("/topics", shared.members_api)
api.add_router("/shared-topics", shared.api)
api.add_router("/runs", runs.api)
api.add_router("/corrections", reports.corrections_api)
api.add_router("/hooks", hooks.api)
api.add_router("/files", files.api)
api.add_router("/memory", files.commands_api)
api.add_router("/context", sessions.context_api)
api.add_router("/trash", trash.api)
api.add_router("/proposals", review.api)
api.add_router("/conflicts", review.conflicts_api)
api.add_router("/settings", api_settings.api)
