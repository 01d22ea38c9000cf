"""URLs of memory's pages."""

from __future__ import annotations

from django.urls import URLPattern, path, register_converter

from beacon_site.web.responses import moved
from memory.models.errors import InvalidValue
from memory.models.file_format import checked_path
from memory.pages import (
    agent,
    agents,
    archive,
    chat,
    conflicts,
    health,
    identity,
    library,
    names,
    ratings,
    recall,
    remember,
    scratchpad,
    trash,
    usage,
)
from memory.pages.accounts import methods as methods_views
from memory.pages.accounts import oauth
from memory.pages.accounts import views as accounts_views
from memory.pages.connections import views as connections_views
from memory.pages.content import items, snapshots
from memory.pages.files import views as file_views
from memory.pages.records import bulk, editing, saved_views
from memory.pages.records import views as record_views
from memory.pages.review import views as review_views
from memory.pages.shared import undo
from memory.services.records.acts import ACTS

app_name = "memory"

_accounts = [
    path("sign-in/", accounts_views.sign_in, name="sign-in"),
    path("sign-in/code/", methods_views.sign_in_code, name="sign-in-code"),
    path("sign-in/form/<uuid:key>/", accounts_views.kept_form, name="kept-form"),
    path("sign-in/passkey/", methods_views.sign_in_passkey, name="sign-in-passkey"),
    path("sign-in/single-sign-on/", methods_views.single_sign_on_start, name="single-sign-on"),
    path(
        "sign-in/single-sign-on/done/",
        methods_views.single_sign_on_done,
        name="single-sign-on-done",
    ),
    path("sign-out/", accounts_views.sign_out, name="sign-out"),
    path("welcome/", accounts_views.welcome, name="welcome"),
    path("first-account/<str:token>/", accounts_views.first_account, name="first-account"),
    path("invitation/<str:token>/", accounts_views.invitation, name="invitation"),
]

_oauth = [
    path(".well-known/oauth-authorization-server", oauth.server_metadata, name="oauth-server"),
    path(".well-known/oauth-protected-resource", oauth.mcp_metadata, name="oauth-resource"),
    path(".well-known/oauth-protected-resource/mcp", oauth.mcp_metadata, name="oauth-resource-mcp"),
    path("oauth/authorize", oauth.authorize, name="oauth-authorize"),
    path("oauth/consent", oauth.consent, name="oauth-consent"),
    path("oauth/token", oauth.token, name="oauth-token"),
    path("oauth/register", oauth.register, name="oauth-register"),
    path("oauth/revoke", oauth.revoke, name="oauth-revoke"),
]

_settings = [
    path("settings/", accounts_views.profile_settings, name="settings"),
    path("settings/profile/", accounts_views.profile, name="profile"),
    path("settings/persona/", identity.persona, name="persona"),
    path("settings/soul/", identity.soul, name="soul"),
    path("settings/soul/<uuid:pk>/bring-back/", identity.soul_restore, name="soul-restore"),
    path("settings/sign-ins/", accounts_views.sign_in_list, name="sign-ins"),
    path(
        "settings/sign-ins/end-others/",
        accounts_views.end_other_sign_ins,
        name="sign-ins-end-others",
    ),
    path("settings/sign-ins/<int:pk>/end/", accounts_views.end_sign_in, name="sign-in-end"),
    path("settings/sign-ins/app/", methods_views.app_set_up, name="app-set-up"),
    path("settings/sign-ins/codes/", methods_views.recovery_codes, name="recovery-codes"),
    path("settings/sign-ins/passkeys/", methods_views.passkey_add, name="passkey-add"),
    path(
        "settings/sign-ins/single-sign-on/",
        methods_views.single_sign_on_link,
        name="single-sign-on-link",
    ),
    path(
        "settings/sign-ins/single-sign-on/remove/",
        methods_views.single_sign_on_unlink,
        name="single-sign-on-unlink",
    ),
    path(
        "settings/sign-ins/methods/<int:pk>/remove/",
        methods_views.method_remove,
        name="method-remove",
    ),
    path("settings/account/delete/", accounts_views.account_delete, name="account-delete"),
    path("settings/account/export/", accounts_views.account_export, name="account-export"),
    path("settings/password/", accounts_views.password, name="password"),
    path("settings/tokens/", accounts_views.token_list, name="tokens"),
    path("settings/tokens/<int:pk>/revoke/", accounts_views.token_revoke, name="token-revoke"),
    path("agents/", agents.context, name="agents"),
    path("agents/context.txt", agents.context_text, name="context-text"),
    path("agents/context/decide/", agents.context_decide, name="context-decide"),
    path("agents/context/answers/", agents.context_answers, name="context-answers"),
    path("agents/folders/", file_views.folder_list, name="agent-folders"),
    path("agents/permissions/", review_views.permissions, name="review-levels"),
    path("agents/permissions/writer/", review_views.writer_level, name="writer-level"),
    path("agents/<int:pk>/", agent.agent_page, name="agent"),
    path("settings/spending/", usage.spending_page, name="spending"),
    path("settings/spending/limits/", usage.spending_limits, name="spending-limits"),
    path("settings/spending/key/", usage.own_key, name="own-key"),
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
    path(_ARCHIVE + "stop/", archive.archive_stop, name="archive-stop"),
    path(_ARCHIVE + "retry/", archive.archive_retry, name="archive-retry"),
    path(_ARCHIVE + "discard/", archive.archive_discard, name="archive-discard"),
    path(_ARCHIVE + "file/", archive.archive_file, name="archive-file"),
]

_staff = [
    path("settings/people/", accounts_views.people_list, name="people"),
    path("settings/people/<int:pk>/disable/", accounts_views.disable, name="person-disable"),
    path("settings/people/<int:pk>/enable/", accounts_views.enable, name="person-enable"),
    path("settings/people/<int:pk>/code-off/", accounts_views.code_off, name="person-code-off"),
    path("settings/people/<int:pk>/delete/", accounts_views.person_delete, name="person-delete"),
    path(
        "settings/people/invitations/<int:pk>/revoke/",
        accounts_views.revoke_invitation,
        name="invitation-revoke",
    ),
    path("settings/backups/", archive.backup_list, name="backups"),
    path("settings/backups/now/", archive.backup_now, name="backup-now"),
    path("settings/backups/<int:pk>/delete/", archive.backup_delete, name="backup-delete"),
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
    path("manifest.webmanifest", library.manifest, name="manifest"),
    path("library/", library.library_list, name="library"),
    path("library/add/", library.library_add, name="library-add"),
    path("library/check/", library.library_check, name="library-check"),
    path("library/<uuid:pk>/", library.library_document, name="library-document"),
    path("library/<uuid:pk>/edit/", library.library_edit, name="library-edit"),
    path("library/<uuid:pk>/sensitivity/", library.library_sensitivity, name="library-sensitivity"),
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
    path("views/save/", saved_views.views_save, name="views-save"),
    path("views/<int:pk>/delete/", saved_views.view_delete, name="view-delete"),
]

# --- Ask ---


_ASK_ONE = "ask/<uuid:pk>/"
_ANSWER = "ask/answers/<int:pk>/"

_ask = [
    path("ask/", chat.ask, name="ask"),
    path(_ASK_ONE, chat.session, name="session"),
    path(_ASK_ONE + "say/", chat.session_send, name="session-send"),
    path(_ASK_ONE + "end/", chat.session_end, name="session-end"),
    path(_ASK_ONE + "rename/", chat.session_rename, name="session-rename"),
    path(_ASK_ONE + "left/", chat.session_left, name="session-saved"),
    path(_ANSWER, chat.message, name="message"),
    path(_ANSWER + "stop/", chat.message_stop, name="message-stop"),
    path(_ANSWER + "again/", chat.message_again, name="message-retry"),
]

# --- content store ---


_CONTENT_ONE = "content/<uuid:pk>/"
_SNAPSHOT = "content/snapshots/<uuid:pk>/"

_content = [
    path("content/", items.content_list_page, name="content"),
    path("content/bulk/", items.content_bulk, name="content-bulk"),
    path("content/clear/", items.content_clear, name="content-clear"),
    path("content/snapshots/", snapshots.snapshot_list, name="content-snapshots"),
    path("content/snapshots/take/", snapshots.snapshot_create, name="content-snapshot-take"),
    path("content/snapshots/upload/", snapshots.snapshot_upload, name="content-snapshot-upload"),
    path(_SNAPSHOT, snapshots.snapshot, name="content-snapshot"),
    path(_SNAPSHOT + "restore/", snapshots.snapshot_restore, name="content-snapshot-restore"),
    path(_SNAPSHOT + "snapshot.json", snapshots.snapshot_json, name="content-snapshot-json"),
    path(_CONTENT_ONE, items.content_item, name="content-item"),
    path(_CONTENT_ONE + "raw/", items.content_raw, name="content-raw"),
    path(_CONTENT_ONE + "sensitivity/", items.content_sensitivity, name="content-sensitivity"),
]

# --- one record ---


_NOTE = {"type": "note"}
_OBSERVATION = {"type": "observation"}
_RECORD = "records/<str:type>/<uuid:pk>/"

_records_pages = [
    path("notes/new/", editing.note_new, name="note-new"),
    path("notes/merge/", record_views.merge, name="notes-merge"),
    path("notes/<uuid:pk>/", record_views.record, _NOTE, name="note"),
    path("notes/<uuid:pk>/edit/", editing.note_edit, name="note-edit"),
    path("notes/<uuid:pk>/history/", record_views.history, _NOTE, name="note-history"),
    path("notes/<uuid:pk>/supersede/", editing.supersede, name="note-supersede"),
    path("observations/new/", editing.observation_new, name="observation-new"),
    path("observations/<uuid:pk>/", record_views.record, _OBSERVATION, name="observation"),
    path("observations/<uuid:pk>/edit/", editing.observation_edit, name="observation-edit"),
    path(
        "observations/<uuid:pk>/history/",
        record_views.history,
        _OBSERVATION,
        name="observation-history",
    ),
]

_records_acts = [
    path(f"{_RECORD}{name}/", record_views.act, {"act": name}, name=f"record-{name}")
    for name in ACTS
]

_records_more = [
    path(_RECORD + "purge/", record_views.purge, name="record-purge"),
    path(
        _RECORD + "restore/<int:revision>/",
        record_views.restore_revision,
        name="record-restore-revision",
    ),
    path("forget/", trash.forget, name="source-forget"),
]

_records = [*_records_pages, *_records_acts, *_records_more]

# --- memory files ---


class FilePath:
    """The valid paths (memory.models.file_format); any other path is a 404."""

    regex = (
        r"facts/(?:user|memory)\.md|episodes/[12][0-9]{3}-(?:0[1-9]|1[0-2])\.md"
        r"|(?:agents|folders)/(?:[^/]+/)+[^/]+\.[A-Za-z0-9]{1,10}"
    )

    def to_python(self, value: str) -> str:
        try:
            return checked_path(value)
        except InvalidValue as exc:
            raise ValueError(str(exc)) from exc

    def to_url(self, value: str) -> str:
        return value


register_converter(FilePath, "memoryfile")
_FILES_ONE = "files/<memoryfile:path>/"

_files = [
    path("files/", file_views.file_list, name="files"),
    path("files/new/", file_views.episode_new, name="episode-new"),
    path(_FILES_ONE, file_views.file_page, name="file"),
    path(_FILES_ONE + "source/", file_views.file_source, name="file-source"),
    path(_FILES_ONE + "edit/", file_views.edit, name="file-edit"),
    path(_FILES_ONE + "preview/", file_views.preview, name="file-preview"),
    path(_FILES_ONE + "draft/", file_views.draft, name="file-draft"),
    path(_FILES_ONE + "history/", file_views.history, name="file-history"),
    path(_FILES_ONE + "compare/", file_views.compare, name="file-compare"),
    path(_FILES_ONE + "restore/", file_views.restore, name="file-restore"),
    path(_FILES_ONE + "blame/", file_views.blame, name="file-blame"),
    path(_FILES_ONE + "timeline/", file_views.timeline, name="file-timeline"),
    path(_FILES_ONE + "lock/", file_views.lock, name="file-lock"),
    path(_FILES_ONE + "condense/", file_views.condense, name="file-condense"),
]

# --- scratchpad, recall, context and Trash ---


_trust = [
    path("scratchpad/", scratchpad.scratchpad_list, name="scratchpad"),
    path("scratchpad/new/", scratchpad.scratchpad_new, name="scratchpad-new"),
    path("scratchpad/<uuid:pk>/", scratchpad.scratchpad_edit, name="scratchpad-edit"),
    path("memory/", recall.recall, name="recall"),
    path("remember/", remember.remember_page, name="remember"),
    path("remember/extract/", remember.extract_page, name="extract"),
    path("remember/known/", remember.also_known, name="also-known"),
    path("memory/names/", names.name_list, name="names"),
    path("memory/names/merge/", names.merge, name="names-merge"),
    path("memory/names/split/", names.split, name="names-split"),
    path("memory/about/", names.about_page, name="about"),
    path("memory/bulk/", recall.memory_bulk, name="memory-bulk"),
    path("memory/<str:type>/<uuid:pk>/", recall.memory_panel, name="memory-panel"),
    path("memory/<str:type>/<uuid:pk>/related/", recall.related_page, name="related"),
    path("memory/<str:kind>", recall.recall_file, name="recall-file"),
    path("undo/<uuid:pk>/", undo.undo, name="undo"),
    path("undo/<str:act>/<str:key>/", undo.undo, name="undo-of"),
    path("trash/", trash.trash, name="trash"),
    path("trash/restore/", trash.trash_restore, name="trash-restore"),
    path("trash/empty/", trash.trash_empty, name="trash-empty"),
    path("records/<str:kind>/<uuid:pk>/", record_views.record_open, name="record-open"),
]

# --- Review and conflicts ---


_review = [
    path("review/decide/", review_views.review_bulk, name="review-bulk"),
    path("review/quarantine/act/", review_views.quarantine_act, name="quarantine-act"),
    path("review/refused/", review_views.refused_sources, name="refused-sources"),
    path("review/refused/<uuid:pk>/allow/", review_views.source_allow, name="source-allow"),
    path("review/never/<str:kind>/<uuid:pk>/", review_views.source_refuse, name="source-refuse"),
    path("review/ratings/", ratings.rated_list, name="ratings"),
    path("review/ratings/rate/", ratings.rate, name="rate"),
    path("review/ratings/<uuid:pk>/clear/", ratings.rating_clear, name="rating-clear"),
    path("review/<uuid:pk>/", review_views.proposal, name="proposal"),
    path("review/<uuid:pk>/accept/", review_views.proposal_accept, name="proposal-accept"),
    path("review/<uuid:pk>/reject/", review_views.proposal_reject, name="proposal-reject"),
    path("conflicts/keep-both/", conflicts.conflicts_bulk, name="conflicts-bulk"),
    path("conflicts/look/", conflicts.conflicts_scan, name="conflicts-scan"),
    path("conflicts/<uuid:pk>/", conflicts.conflict, name="conflict"),
    path("conflicts/<uuid:pk>/resolve/", conflicts.conflict_resolve, name="conflict-resolve"),
]


# Addresses of earlier versions.
_moved = [
    path("recall/", moved("memory:recall"), name="recall-moved"),
    path("recall/<str:kind>", moved("memory:recall-file"), name="recall-file-moved"),
    path("settings/agents/", moved("memory:review-levels"), name="agents-moved"),
    path("settings/review/", moved("memory:review-levels"), name="review-levels-moved"),
    path("context/", moved("memory:agents"), name="context-moved"),
    path("context/context.txt", moved("memory:context-text"), name="context-text-moved"),
    path("review/", moved("research:inbox", show="proposal"), name="review-moved"),
    path("review/quarantine/", moved("research:inbox", show="quarantine"), name="quarantine-moved"),
    path("conflicts/", moved("research:inbox", show="conflict"), name="conflicts-moved"),
    path("settings/agents/<int:pk>/", moved("memory:agent"), name="agent-moved"),
]

urlpatterns: list[URLPattern] = [
    *_accounts,
    *_oauth,
    *_settings,
    *_archive,
    *_staff,
    *_library,
    *_lists,
    *_ask,
    *_content,
    *_records,
    *_files,
    *_trust,
    *_review,
    *_moved,
]
