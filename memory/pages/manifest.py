"""The web app manifest: Beacon can be installed on a phone, and is then in its share menu."""

from __future__ import annotations

from django.http import HttpRequest, JsonResponse
from django.templatetags.static import static
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.cache import cache_control
from django.views.decorators.http import require_safe


@require_safe
@cache_control(public=True, max_age=3600)
def manifest(request: HttpRequest) -> JsonResponse:
    """Return the manifest.  Shared content opens the form for a new document, filled in."""
    icon = {"src": static("favicon.svg"), "sizes": "any", "type": "image/svg+xml"}
    return JsonResponse(
        {
            "id": "/",
            "name": "Beacon",
            "short_name": "Beacon",
            "description": _("See, search and correct your AI agent’s memory"),
            "start_url": "/",
            "scope": "/",
            "display": "standalone",
            "background_color": "#fbfaf7",
            "theme_color": "#1c2430",
            "icons": [icon],
            "share_target": {
                "action": reverse("memory:library-add"),
                "method": "GET",
                "params": {"title": "title", "text": "text", "url": "url"},
            },
        },
        content_type="application/manifest+json",
    )
