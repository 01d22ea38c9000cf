"""Record types of memory in an archive: how each is exported and imported, and why some are left out.

Imported work never starts by itself, citations lead only to the owner's own records, and another
person's words never count as the owner's, because agents' permissions rely on those.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from django.db.models import Q
from django.utils import timezone
from django.utils.translation import gettext_lazy

from beacon_site.text.cleaning import dicts_in, is_uuid
from beacon_site.text.markdown import MARK
from beacon_site.text.messages import gettext as _
from beacon_site.text.messages import grouped
from memory import models as memory
from memory.accounts.archive.kinds import Kind, register
from memory.accounts.archive.zips import ImportRejected
from memory.models import (
    Conflict,
    ContentItem,
    FileDraft,
    FileEntry,
    MemoryFile,
    Message,
    Proposal,
    Rating,
    Reflection,
    Remembered,
    Revision,
    Section,
    Session,
    Trust,
    User,
)
from memory.models.actors import SYSTEM
from memory.models.conflicts import CONFLICT_TYPES, MAX_PAIRS
from memory.models.content import SNAPSHOT_FORMAT
from memory.models.errors import InvalidValue, MemoryRefused
from memory.models.file_format import (
    by_rule,
    checked_path,
    is_fact,
    is_kept_exact,
    locked_text,
    summary_of,
    summary_of_exact,
    with_summary,
)
from memory.models.notes import MAX_CONTENT
from memory.models.remembered import record_models
from memory.services.content.items import MAX_BYTES, check_no_circle, check_size
from memory.services.files import texts
from memory.services.files.saving import facts_size
from memory.services.files.texts import MAX_FACTS, carried, cleaned
from memory.services.review import risks
from memory.services.review.apply import APPLY, CHECKS
from memory.services.review.risks import Risk
from memory.services.search import ratings
from memory.services.search.kinds import KINDS

_TEXTS = ("type", "id", "title", "url", "quote", "mark", "trust", "until")
_ROLES = ("user", "assistant")
_NOT_SEEN = 0  # a version that no file has, so a write based on it is shown the current text
MAX_LINES = 300_000  # entries in a file's blame, more than any file has


# --- sessions and messages ------------------------------------------------------------------------


def end_strangers(session: Session, import_context: Any) -> None:
    """End sessions from another person's archive, since their messages aren't the owner's words."""
    if not import_context.is_own and session.ended_at is None:
        session.ended_at = timezone.now()


def message_problem(message: Message) -> str:
    """Return why a row can't be a message, or ""."""
    if message.role not in _ROLES:
        return _("the message’s role is unknown")
    if not isinstance(message.cites, list) or not isinstance(message.tool_calls, list):
        return _("the message’s citations or tool calls aren’t a list")
    return ""


def fail_pending_answer(message: Message, import_context: Any) -> None:
    """Fail answers that were still pending in the archive, and keep only valid citations and calls."""
    if message.is_unfinished:
        message.state = Message.State.FAILED
        message.notice = _("The answer wasn’t finished when the archive was created.")
    message.lease_until = None
    cites = [_texts(one, import_context) for one in message.cites if isinstance(one, Mapping)]
    message.cites = [one for one in cites if _may_be_cited(one, message.role)]
    calls = [_call(one, import_context) for one in message.tool_calls if isinstance(one, Mapping)]
    message.tool_calls = [call for call in calls if call["tool"]]


def _texts(given: Mapping[str, Any], import_context: Any) -> dict[str, str]:
    """Return the text fields of a record that an answer names."""
    kept = {name: given[name] for name in _TEXTS if isinstance(given.get(name), str)}
    if "trust" in kept:
        kept["trust"] = _trust(kept["trust"], import_context)
    return {"type": "", "id": "", "title": "", **kept}


def _trust(text: str, import_context: Any) -> str:
    """Return the trust: external for another person's archive, or if the value is unknown."""
    known = text in Trust.values and (import_context.is_own or text == Trust.QUARANTINED)
    return text if known else Trust.EXTERNAL.value


def _may_be_cited(cite: Mapping[str, str], role: str) -> bool:
    is_marked = role == "user" or MARK.fullmatch(f"[{cite.get('mark', '')}]") is not None
    return is_marked and bool(cite["type"]) and is_uuid(cite["id"])


def _call(given: Mapping[str, Any], import_context: Any) -> dict[str, Any]:
    """Return a tool call in the form of `CallRecord`."""
    number, arguments = given.get("round"), given.get("arguments")
    kept = {
        "round": number if type(number) is int else 1,
        "tool": _text(given.get("tool"))[:64],
        "arguments": arguments if isinstance(arguments, dict) else {},
        "result": _text(given.get("result")),
        "is_error": bool(given.get("is_error")),
        "records": [_texts(one, import_context) for one in dicts_in(given.get("records"))],
        "trust": _trust(_text(given.get("trust")), import_context),
        "seen": _seen(given.get("seen"), import_context),
    }
    proposal = _text(given.get("proposal"))
    return {**kept, "proposal": proposal} if is_uuid(proposal) else kept


def _seen(given: Any, import_context: Any) -> dict[str, int]:
    """Return the file versions that were read; none for another person's archive."""
    versions = given.items() if isinstance(given, Mapping) else ()
    kept = {path: version for path, version in versions if type(version) is int and version >= 0}
    return kept if import_context.is_own else dict.fromkeys(kept, _NOT_SEEN)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def remap_citations(import_context: Any, messages: list[Message]) -> None:
    """Point the citations and proposals of messages to the owner's records, and remove others."""
    telling = [one for one in messages if one.cites or one.tool_calls]
    places = _urls_by_id(import_context.owner, [cite for one in telling for cite in one.cites])
    held = [call["proposal"] for one in telling for call in one.tool_calls if "proposal" in call]
    rows = (
        Proposal.objects.for_user(import_context.owner)
        .filter(pk__in=held)
        .values_list("pk", flat=True)
    )
    waiting = set(map(str, rows))
    for message in telling:
        if message.role == "user":  # its notes, which have their own links
            message.cites = [cite for cite in message.cites if places.get(cite["id"])]
        for cite in message.cites:
            cite["url"] = places.get(cite["id"], "")
        for call in message.tool_calls:
            if call.get("proposal") not in waiting:
                call.pop("proposal", None)
    Message.objects.bulk_update(telling, ["cites", "tool_calls"], batch_size=200)


def _urls_by_id(owner: User, cites: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """Return the URLs of the existing records by ID, with one query per type."""
    keys: dict[str, set[str]] = {}
    places: dict[str, str] = {}
    files = {
        one.get_absolute_url() for one in MemoryFile.objects.for_user(owner).live().only("path")
    }
    for cite in cites:
        keys.setdefault(cite["type"], set()).add(cite["id"])
        # A section is created again with its file, so only its place on the file's page is kept.
        if cite.get("url", "").partition("#")[0] in files:
            places[cite["id"]] = cite["url"]
    for name, names in keys.items():
        model = KINDS[name].model if name in KINDS else record_models().get(name)
        for record in model.objects.filter(owner=owner, pk__in=names) if model else ():
            places[str(record.pk)] = (
                KINDS[name].url(record) if name in KINDS else record.get_absolute_url()
            )
    return places


# --- reflections ----------------------------------------------------------------------------------


def reflection_problem(reflection: Reflection) -> str:
    """Return why a row can't be a reflection, or ""."""
    calls, changes = reflection.calls, reflection.changes
    if not isinstance(calls, list) or not all(map(_is_call, calls)):
        return _("“calls” isn’t a valid list of calls")
    if not isinstance(changes, list) or not all(map(_is_change, changes)):
        return _("“changes” isn’t a valid list of changes")
    return ""


def _is_call(one: Any) -> bool:
    values = {"tool": str, "arguments": dict, "result": str, "is_error": bool}
    return isinstance(one, dict) and all(type(one.get(name)) is of for name, of in values.items())


def _is_change(one: Any) -> bool:
    if not isinstance(one, dict) or not isinstance(one.get("path"), str):
        return False
    if one.get("act") == "held":
        return is_uuid(_text(one.get("proposal")))
    return one.get("act") == "written" and type(one.get("version")) is int


def skip_pending_reflection(reflection: Reflection, _import_context: Any) -> None:
    """Skip reflections that were still pending in the archive."""
    if reflection.is_unfinished:
        reflection.state = Reflection.State.SKIPPED
        reflection.why = _("the archive was created before this reflection ran")
        reflection.finished_at = timezone.now()


# --- proposals, drafts, revisions -----------------------------------------------------------------


def proposal_problem(proposal: Proposal) -> str:
    """Return why a row can't be a proposal, or ""."""
    texts = (proposal.before, proposal.after, proposal.edited)
    if proposal.record_type not in APPLY or not all(isinstance(text, dict) for text in texts):
        return _("it proposes a type of change that this version of Beacon doesn’t support")
    results = proposal.results
    if not isinstance(results, list) or not all(map(_is_result, results)):
        return _("“%(field)s” isn’t valid") % {"field": "results"}
    try:
        CHECKS[proposal.record_type](proposal)
    except MemoryRefused as exc:
        return str(exc)
    except (TypeError, AttributeError, ValueError):
        return _("its proposed change isn’t valid")
    return ""


def _is_result(one: Any) -> bool:
    """Return True if the value names a revision by record type, record and version."""
    if not isinstance(one, list) or [type(part) for part in one] != [str, str, int]:
        return False
    return is_uuid(one[1])


def mark_foreign_proposals(proposal: Proposal, import_context: Any) -> None:
    """Mark proposals from another person's archive, and rate their danger again, since an archive can claim any."""
    stranger = () if import_context.is_own else (Risk("stranger"),)
    risks.rate(proposal, proposal.hold_reasons, more=stranger)
    if stranger:
        proposal.source = import_context.source
        why = [stranger[0].words, proposal.hold_reasons]
        proposal.hold_reasons = "; ".join(filter(None, why))


def conflict_problem(conflict: Conflict) -> str:
    """Return why a row can't be a conflict, or ""."""
    if not {conflict.left_type, conflict.right_type} <= set(CONFLICT_TYPES):
        return _("records of these types can’t conflict")
    if conflict.left_id == conflict.right_id:
        return _("a record can’t conflict with itself")
    results = conflict.results
    if not isinstance(results, list) or not all(map(_is_result, results)):
        return _("“%(field)s” isn’t valid") % {"field": "results"}
    lines: list[Any] = conflict.lines if isinstance(conflict.lines, list) else [None]
    if len(lines) > MAX_PAIRS or not all(map(_is_pair, lines)):
        return _("“%(field)s” isn’t valid") % {"field": "lines"}
    return ""


def _is_pair(one: Any) -> bool:
    """Return True if the value is two digests of statements."""
    if not isinstance(one, list) or len(one) != 2:
        return False
    return all(isinstance(digest, str) and len(digest) == 16 for digest in one)


def resolve_duplicate_conflict(conflict: Conflict, import_context: Any) -> None:
    """Resolve an imported conflict that is already open here."""
    conflict.owner = import_context.owner
    if conflict.is_open and conflict.same_pairs().open().exclude(pk=conflict.pk).exists():
        conflict.state, conflict.resolution = Conflict.State.RESOLVED, Conflict.How.GONE
        conflict.resolved_by, conflict.resolved_at = str(import_context.by), timezone.now()


def rating_problem(rating: Rating) -> str:
    """Return why a row can't be a rating, or ""."""
    if rating.key != ratings.key_of_text(rating.question, rating.language):
        return _("“%(field)s” isn’t valid") % {"field": "key"}
    return ""


def draft_problem(draft: FileDraft) -> str:
    """Return why a row can't be a draft, or ""."""
    try:
        checked_path(draft.path)
    except MemoryRefused as exc:
        return str(exc)
    return ""


def revision_problem(revision: Revision) -> str:
    """Return why a row can't be a revision, or ""."""
    sides = (revision.before, revision.after)
    if not all(isinstance(side, dict) for side in sides):
        return _("its values before and after the change aren’t valid")
    if revision.record_type == MemoryFile.record_type():
        if not all(isinstance(side.get("content", ""), str) for side in sides):
            return _("“%(field)s” isn’t text") % {"field": "content"}
        if not all(_is_blame(side.get("blame", [])) for side in sides):
            return _("“%(field)s” isn’t valid") % {"field": "blame"}
    return ""


def _is_blame(given: Any) -> bool:
    """Whether the value is a list of `[lines, version]`, with no more lines than a file can have."""
    runs: list[Any] = given if isinstance(given, list) else [None]
    if not all(
        isinstance(run, list) and [type(one) for one in run] == [int, int] and min(run) >= 0
        for run in runs
    ):
        return False
    return sum(int(run[0]) for run in runs) <= MAX_LINES


# --- content items and snapshots ---------------------------------------------------------------


def item_problem(row: Any) -> str:
    """Return why a row can't be an item of the store or of a snapshot, or ""."""
    try:
        check_size(row.content)
    except InvalidValue:
        return _("it’s larger than %(most)d bytes, the limit for one item") % {"most": MAX_BYTES}
    return ""


def measure(row: Any, _import_context: Any) -> None:
    """Set an item's size from its content, since the archive's value may be wrong."""
    row.size = len(row.content)


def snapshot_problem(row: Any) -> str:
    """Return why this Beacon can't read a snapshot, or ""."""
    if row.format > SNAPSHOT_FORMAT:
        params = {"theirs": row.format, "ours": SNAPSHOT_FORMAT}
        return (
            _(
                "its format is %(theirs)d, but this version of Beacon supports formats up to %(ours)d"
            )
            % params
        )
    return ""


def check_relations(_import_context: Any, items: list[ContentItem]) -> None:
    """Raises ImportRejected if the items have circular relations."""
    through = ContentItem.related_to.through.objects
    links: dict[Any, list[Any]] = {item.pk: [] for item in items}
    rows = through.filter(from_contentitem_id__in=links)
    for here, there in rows.values_list("from_contentitem_id", "to_contentitem_id"):
        links[here].append(there)
    try:
        check_no_circle(links, {item.pk: str(item) for item in items})
    except InvalidValue as exc:
        raise ImportRejected(_("%(why)s Nothing was imported.") % {"why": exc}) from exc


# --- memory files ------------------------------------------------------------------------------


def file_problem(file: MemoryFile) -> str:
    """Return why a row can't be one of the owner's files, or ""."""
    try:
        checked_path(file.path)
        text = _with_summary_line(file)
        texts.check_lines(text)
        texts.check_size(file.path, texts.size_of(text), _others(file))
    except MemoryRefused as exc:
        return str(exc)
    if is_fact(file.path) and file.trashed_at is not None:
        return _("a fact file can’t be in Trash")
    return ""


def replace_default_file(file: MemoryFile, import_context: Any) -> None:
    """Recompute what derives from the text; the file replaces an unedited default file of its path."""
    text = _with_summary_line(file)
    if not _fits(file.blame, text):
        file.blame = carried([], "", text, file.version)
    is_exact = is_kept_exact(file.path)
    file.content = text
    file.summary = summary_of_exact(file.path, text) if is_exact else summary_of(text) or ""
    if file.summary_by not in MemoryFile.SummaryBy.values or file.summary == by_rule(
        file.path, text
    ):
        file.summary_by = MemoryFile.SummaryBy.BEACON
    file.size = texts.size_of(text)
    file.section_locks = _section_locks(file)
    if file.trashed_at is not None:
        return
    here = (
        MemoryFile.objects.for_user(import_context.owner).live().filter(path=file.path, version=1)
    )
    for standing in here.exclude(pk=file.pk):
        first = Revision.objects.filter(record_id=standing.pk, version=1, actor=str(SYSTEM))
        if first.exists():
            Remembered.purge(standing, by=import_context.by)


def finish_files(import_context: Any, files: list[MemoryFile]) -> None:
    """Update sections and mirror.  Raises ImportRejected if the fact files exceed their budget."""
    size = facts_size(import_context.owner)
    if size > MAX_FACTS:
        params = {"have": grouped(size), "most": grouped(MAX_FACTS)}
        raise ImportRejected(
            _(
                "With this import, the fact files would be %(have)s bytes, but the limit is %(most)s. Nothing was imported. Shorten them, then import again."
            )
            % params
        )
    for file in files:
        Section.follow_file(file)
        file.tell()


def entry_problem(entry: FileEntry) -> str:
    """Return why a row can't be a section removed from a file, or ""."""
    try:
        checked_path(entry.path)
    except MemoryRefused as exc:
        return str(exc)
    if (size := texts.size_of(entry.content)) > texts.MAX_EPISODES:
        params = {"have": grouped(size), "most": grouped(texts.MAX_EPISODES)}
        return _("it’s %(have)s bytes, but a file can be at most %(most)s") % params
    if not isinstance(entry.heading, list) or not all(isinstance(s, str) for s in entry.heading):
        return _("its heading isn’t a list of strings")
    if cleaned(entry.content)[0] != entry.content:
        return _("it contains characters that can’t be stored")
    return ""


def _with_summary_line(file: MemoryFile) -> str:
    text = cleaned(file.content)[0]
    return (
        text
        if is_kept_exact(file.path) or summary_of(text)
        else with_summary(text, by_rule(file.path, text))
    )


def _others(file: MemoryFile) -> int:
    """Return the size of the other fact file, if it was edited."""
    rows = MemoryFile.objects.for_user(file.owner).live().facts().exclude(path=file.path)
    return sum(rows.filter(version__gt=1).values_list("size", flat=True))


def _fits(blame: Any, text: str) -> bool:
    """Whether it is a valid blame of this text, since someone could have edited the archive."""
    try:
        lines = sum(int(number) for number, _version in blame)
    except (TypeError, ValueError):
        return False
    return lines == sum(number for number, _version in carried([], "", text, 1))


def _section_locks(file: MemoryFile) -> list[list[str]]:
    given = file.section_locks if isinstance(file.section_locks, list) else []
    paths = [one for one in given if isinstance(one, list) and all(isinstance(s, str) for s in one)]
    return [path for path in paths if path and locked_text(file.content, path) is not None]


# --- all record types --------------------------------------------------------------------------


def _too_long(row: Any) -> str:
    size = len((getattr(row, "content", "") or "").encode())
    if size <= MAX_CONTENT:
        return ""
    return _("it’s %(have)d bytes, but the limit is %(most)d") % {"have": size, "most": MAX_CONTENT}


def _replace_default_identity(note: Any, import_context: Any) -> None:
    """Import a soul, agent or user note although there is a current one.

    It replaces one that was never edited. Otherwise it is imported as superseded, since an import
    never replaces what is here.
    """
    stands = note.kind in memory.Note.IDENTITY and note.superseded_by_id is None
    if not stands or note.trashed_at is not None:
        return
    here = (
        memory.Note.objects.for_user(import_context.owner).current_identity().filter(kind=note.kind)
    )
    standing = here.exclude(pk=note.pk).first()
    if standing is None:
        return
    rows = memory.Revision.objects.filter(record_id=standing.pk, version=1, actor=str(SYSTEM))
    if standing.version == 1 and rows.exists():
        standing.purge(by=import_context.by)
    else:
        note.superseded_by_id = standing.pk


def _follow_topics(_import_context: Any, topics: list[Any]) -> None:
    for topic in topics:
        memory.Topic.notify_changed(topic.owner_id, topic.pk)


_EXPORTED_DOCUMENTS = Q(path="")  # the watched folder's documents stay with the folder
_OF_EXPORTED = ~Q(record_type=memory.LibraryDocument.record_type()) | Q(
    record_id__in=memory.LibraryDocument.objects.filter(_EXPORTED_DOCUMENTS).values("pk")
)

MEMORY_KINDS = [
    Kind(
        "agents",
        gettext_lazy("agents"),
        memory.Agent,
        key=("name",),
        without=("created", "read_trust", "read_at"),
    ),
    Kind(
        "agent-scopes",
        gettext_lazy("scopes used by agents"),
        memory.AgentScope,
        key=("scope",),
        own_alone=True,
    ),
    Kind("review-levels", gettext_lazy("review rules"), memory.ReviewLevel, key=("kind", "writer")),
    Kind(
        "refused-sources",
        gettext_lazy("blocked sources"),
        memory.RefusedSource,
        key=("kind", "name"),
        own_alone=True,
    ),
    Kind("saved-views", gettext_lazy("saved views"), memory.SavedView, key=("page", "name")),
    Kind("names", gettext_lazy("merged names"), memory.NameAlias, key=("key",)),
    Kind(
        "source-rules",
        gettext_lazy("source rules for all topics"),
        memory.SourceRule,
        key=("place",),
    ),
    Kind(
        "documents",
        gettext_lazy("library documents"),
        memory.LibraryDocument,
        only=_EXPORTED_DOCUMENTS,
    ),
    Kind("topics", gettext_lazy("topics"), memory.Topic, finish=_follow_topics),
    Kind("facts", gettext_lazy("topic facts"), memory.TopicFact),
    Kind(
        "seen-urls",
        gettext_lazy("seen URLs"),
        memory.SeenUrl,
        owner="topic__owner",
        key=("topic_id", "url"),
    ),
    Kind(
        "sources",
        gettext_lazy("sources"),
        memory.Source,
        owner="topic__owner",
        key=("topic_id", "url"),
    ),
    Kind(
        "put-away",
        gettext_lazy("data from runs in Trash"),
        memory.TrashedRows,
        key=("record_id",),
        of_records=True,
    ),
    Kind(
        "sessions",
        gettext_lazy("conversations"),
        memory.Session,
        named={"agent_id": "name"},
        prepare=end_strangers,
    ),
    Kind(
        "messages",
        gettext_lazy("messages"),
        memory.Message,
        owner="session__owner",
        key=("session_id", "position"),
        citing=("content",),
        problem=message_problem,
        prepare=fail_pending_answer,
        finish=remap_citations,
    ),
    Kind(
        "content",
        gettext_lazy("content items"),
        memory.ContentItem,
        many=("related_to",),
        problem=item_problem,
        prepare=measure,
        finish=check_relations,
    ),
    Kind(
        "snapshots",
        gettext_lazy("content store snapshots"),
        memory.Snapshot,
        problem=snapshot_problem,
    ),
    Kind(
        "snapshot-items",
        gettext_lazy("snapshot items"),
        memory.SnapshotItem,
        owner="snapshot__owner",
        key=("snapshot_id", "item_id"),
        citing=("item_id", "related_to"),
        problem=item_problem,
        prepare=measure,
    ),
    Kind(
        "notes",
        gettext_lazy("notes"),
        memory.Note,
        problem=_too_long,
        prepare=_replace_default_identity,
        purges=True,
    ),
    Kind("observations", gettext_lazy("observations"), memory.Observation, problem=_too_long),
    Kind("scratchpad", gettext_lazy("scratchpad entries"), memory.ScratchpadEntry),
    Kind(
        "files",
        gettext_lazy("memory files"),
        memory.MemoryFile,
        problem=file_problem,
        prepare=replace_default_file,
        purges=True,
        finish=finish_files,
    ),
    Kind(
        "file-entries", gettext_lazy("sections in Trash"), memory.FileEntry, problem=entry_problem
    ),
    Kind(
        "file-drafts", gettext_lazy("memory file drafts"), memory.FileDraft, problem=draft_problem
    ),
    Kind(
        "reflections",
        gettext_lazy("reflections"),
        memory.Reflection,
        key=("source",),
        problem=reflection_problem,
        prepare=skip_pending_reflection,
    ),
    Kind(
        "proposals",
        gettext_lazy("proposals"),
        memory.Proposal,
        problem=proposal_problem,
        prepare=mark_foreign_proposals,
    ),
    Kind(
        "conflicts",
        gettext_lazy("conflicts"),
        memory.Conflict,
        citing=("topic_ids",),
        own_alone=True,  # undoing a resolution uses the row's record of its changes
        problem=conflict_problem,
        prepare=resolve_duplicate_conflict,
    ),
    Kind(
        "revisions",
        gettext_lazy("record versions"),
        memory.Revision,
        key=("record_id", "version", "created"),
        only=_OF_EXPORTED,
        of_records=True,
        problem=revision_problem,
    ),
    Kind(
        "ratings",
        gettext_lazy("ratings of search results"),
        memory.Rating,
        key=("record_id", "position", "key"),
        own_alone=True,
        of_records=True,
        problem=rating_problem,
    ),
    Kind(
        "uses",
        gettext_lazy("uses of records in prompts"),
        memory.Use,
        key=("record_id", "place"),
        only=_OF_EXPORTED,
        of_records=True,
    ),
    Kind(
        "model-calls",
        gettext_lazy("model calls"),
        memory.ModelCall,
        key=("source", "created", "purpose"),
        own_alone=True,
    ),
    Kind(
        "activity",
        gettext_lazy("activity log entries"),
        memory.Activity,
        key=("created", "kind", "subject_id"),
        own_alone=True,
    ),
]

LEFT_OUT = {
    "memory.ApiToken": "a secret: only its hash is stored, and it only works on this instance",
    "memory.Membership": "names another account of this instance",
    "memory.OwnKey": "a secret, encrypted with this instance’s SECRET_KEY",
    "memory.OAuthClient": "an app that connected to this instance",
    "memory.OAuthGrant": "a secret, like its token",
    "memory.CallReservation": "a reservation for a model call in progress; the call itself is exported",
    "memory.ApiAnswer": "a response kept for a day in case the same request is sent again",
    "mfa.Authenticator": "secrets that open the account on this instance",
    "socialaccount.SocialAccount": "a link to the single sign-on of this instance",
    "memory.SignIn": "the log of a person’s sign-ins to this instance",
    "memory.Invitation": "a one-time link to this instance: only its hash is stored",
    "memory.SearchSpace": "the search index, which is rebuilt from the imported records",
    "memory.SearchEntry": "the search index",
    "memory.SearchTerm": "the search index",
    "memory.Embedding": "recomputed from the text by the importing instance’s embedder",
    "memory.EmbeddingDue": "a record queued for embedding on this instance",
    "memory.BulkAction": "work in progress on this instance’s rows",
    "memory.Undo": "refers to versions of this instance’s rows",
    "memory.PublishDue": "an outdated copy in this instance’s Redis",
    "memory.LibraryFolder": "the state of a folder on this machine",
    "memory.Archive": "an export or import itself",
    "memory.Section": "a part of a memory file, recreated from its text on import",
    "memory.BackupPlan": "the schedule of this instance’s backups",
    "memory.BackupFile": "a backup of this whole instance",
    "memory.MirroredFile": "the state of a folder on this machine",
    "memory.MountedFolder": "a folder on this machine",
    "memory.MirrorFolder": "the state of a folder on this machine",
}


def register_kinds() -> None:
    """Register memory's models; called when the app is ready."""
    register(MEMORY_KINDS, LEFT_OUT)
