"""The one API that joins memory's resources and research's, under `/api/v1/`."""

from __future__ import annotations

from django.utils.translation import gettext_lazy as _

from memory.api import notes
from memory.api.frame import BeaconAPI

api = BeaconAPI(
    title="Beacon",
    version="1.0.0",
    urls_namespace="research:api-1.0.0",
    description=str(
        _(
            "What an agent remembers, for programs. Send a token with every request "
            "(Authorization: Bearer bcn_…); errors are application/problem+json. docs/api.md "
            "begins with curl."
        )
    ),
)
api.add_router("/notes", notes.api)
