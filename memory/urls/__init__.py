"""URLs of memory's pages."""

from __future__ import annotations

from django.urls import URLPattern, path

from memory.pages import archive, health, identity, library, usage
from memory.pages.accounts import views as accounts_views
from memory.pages.connections import views as connections_views
from memory.pages.records import bulk, saved_views
from memory.pages.records import views as record_views
from memory.urls import ask as ask_urls
from memory.urls import content as content_urls
from memory.urls import files as file_urls
from memory.urls import records as record_urls
from memory.urls import review as review_urls
from memory.urls import trust as trust_urls

app_name = "memory"

_accounts = [
    path("sign-in/", accounts_views.sign_in, name="sign-in"),
    path("sign-out/", accounts_views.sign_out, name="sign-out"),
    path("welcome/", accounts_views.welcome, name="welcome"),
    path("first-account/<str:token>/", accounts_views.first_account, name="first-account"),
    path("invitation/<str:token>/", accounts_views.invitation, name="invitation"),
]

_settings = [
    path("settings/", accounts_views.profile_settings, name="settings"),
    path("settings/profile/", accounts_views.profile, name="profile"),
    path("settings/persona/", identity.persona, name="persona"),
    path("settings/soul/", identity.soul, name="soul"),
    path("settings/undo/<str:key>/", accounts_views.undo, name="settings-undo"),
    path("settings/soul/<uuid:pk>/undo/", identity.soul_undo, name="soul-undo"),
    path("settings/soul/<uuid:pk>/bring-back/", identity.soul_bring_back, name="soul-bring-back"),
    path("settings/sign-ins/", accounts_views.sign_in_list, name="sign-ins"),
    path(
        "settings/sign-ins/end-others/",
        accounts_views.end_other_sign_ins,
        name="sign-ins-end-others",
    ),
    path("settings/sign-ins/<int:pk>/end/", accounts_views.end_sign_in, name="sign-in-end"),
    path("settings/account/delete/", accounts_views.account_delete, name="account-delete"),
    path("settings/account/export/", accounts_views.account_export, name="account-export"),
    path("settings/password/", accounts_views.password, name="password"),
    path("settings/tokens/", accounts_views.token_list, name="tokens"),
    path("settings/tokens/<int:pk>/revoke/", accounts_views.token_revoke, name="token-revoke"),
    path("settings/agents/", accounts_views.agent_list, name="agents"),
    path("settings/agents/<int:pk>/", accounts_views.agent_edit, name="agent"),
    path("settings/spending/", usage.spending_page, name="spending"),
    path("settings/spending/limits/", usage.spending_limits, name="spending-limits"),
    path("settings/spending/calls.csv", usage.spending_csv, name="spending-csv"),
]

_ARCHIVE = "settings/archive/<uuid:pk>/"
_archive = [
    path("settings/archive/", archive.archive_page, name="archive"),
    path("settings/archive/export/", archive.archive_export, name="archive-export"),
    path("settings/archive/import/", archive.archive_import, name="archive-import"),
    path(_ARCHIVE, archive.archive_row, name="archive-row"),
    path(_ARCHIVE + "choose/", archive.archive_choose, name="archive-choose"),
    path(_ARCHIVE + "confirm/", archive.archive_confirm, name="archive-confirm"),
    path(_ARCHIVE + "discard/", archive.archive_discard, name="archive-discard"),
    path(_ARCHIVE + "file/", archive.archive_file, name="archive-file"),
]

_staff = [
    path("settings/people/", accounts_views.people_list, name="people"),
    path("settings/people/<int:pk>/disable/", accounts_views.disable, name="person-disable"),
    path("settings/people/<int:pk>/enable/", accounts_views.enable, name="person-enable"),
    path("settings/people/<int:pk>/delete/", accounts_views.person_delete, name="person-delete"),
    path(
        "settings/people/invitations/<int:pk>/revoke/",
        accounts_views.revoke_invitation,
        name="invitation-revoke",
    ),
    path("settings/health/", health.health_page, name="health"),
    path("settings/connections/", connections_views.connection_list, name="connections"),
    path("settings/connections/feeds/test/", connections_views.test_feed, name="feed-test"),
    path(
        "settings/connections/model/names/", connections_views.model_names, name="connection-models"
    ),
    path("settings/connections/<str:name>/", connections_views.save_connection, name="connection"),
    path(
        "settings/connections/<str:name>/test/",
        connections_views.test_connection,
        name="connection-test",
    ),
]

_library = [
    path("library/", library.library_list, name="library"),
    path("library/add/", library.library_add, name="library-add"),
    path("library/check/", library.library_check, name="library-check"),
    path("library/<uuid:pk>/", library.library_document, name="library-document"),
    path("library/<uuid:pk>/edit/", library.library_edit, name="library-edit"),
    path("library/<uuid:pk>/trash/", library.library_trash, name="library-trash"),
    path("library/<uuid:pk>/restore/", library.library_restore, name="library-restore"),
]

_lists = [
    path("notes/maintain/", health.notes_maintain, name="notes-maintain"),
    path("notes/", record_views.notes, name="notes"),
    path("observations/", record_views.observations, name="observations"),
    path("records/<str:type>/<uuid:pk>/inline/", record_views.record_inline, name="record-inline"),
    path("records/<str:page>/bulk/", bulk.records_bulk, name="records-bulk"),
    path("bulk/<uuid:pk>/", bulk.bulk_progress, name="bulk-progress"),
    path("bulk/<uuid:pk>/undo/", bulk.bulk_undo, name="bulk-undo"),
    path("views/save/", saved_views.views_save, name="views-save"),
    path("views/undo/", saved_views.views_undo, name="views-undo"),
    path("views/<int:pk>/delete/", saved_views.view_delete, name="view-delete"),
]

urlpatterns: list[URLPattern] = [
    *_accounts,
    *_settings,
    *_archive,
    *_staff,
    *_library,
    *_lists,
    *ask_urls.urlpatterns,
    *content_urls.urlpatterns,
    *record_urls.urlpatterns,
    *file_urls.urlpatterns,
    *trust_urls.urlpatterns,
    *review_urls.urlpatterns,
]
