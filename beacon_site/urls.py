"""The URLs of health checks and the admin site; the apps add those of their pages."""

from __future__ import annotations

from django.contrib import admin
from django.urls import include, path

from beacon_site import health

urlpatterns = [
    path("livez", health.livez, name="livez"),
    path("readyz", health.readyz, name="readyz"),
    path("admin/", admin.site.urls),
    path("", include("memory.urls")),
    path("", include("research.urls")),
]

handler400 = "research.pages.errors.bad_request"
handler403 = "research.pages.errors.forbidden"
handler404 = "research.pages.errors.not_found"
handler500 = "research.pages.errors.server_error"
