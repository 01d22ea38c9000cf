"""Import rules for sessions, messages, reflections, proposals, drafts and revisions.

Imported work never starts by itself, citations lead only to the owner's own records, and another
person's words never count as the owner's, because agents' permissions rely on those (decision 10).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any
from uuid import UUID

from django.utils import timezone
from django.utils.translation import gettext as _

from beacon_site.text.cite_marks import MARK
from memory.chat.conversation import PENDING
from memory.core.errors import MemoryRefused
from memory.core.file_format import checked_path
from memory.models import (
    Conflict,
    FileDraft,
    MemoryFile,
    Message,
    Proposal,
    Reflection,
    Revision,
    Session,
    Trust,
    User,
)
from memory.models.conflicts import CONFLICT_TYPES
from memory.records import kinds as record_kinds
from memory.review import risks
from memory.review.apply import APPLY
from memory.review.risks import Risk
from memory.search.kinds import KINDS
from memory.tools.types import named

_TEXTS = ("type", "id", "title", "url", "quote", "mark", "trust")
_ROLES = ("user", "assistant")
_NOT_SEEN = 0  # a version that no file has, so a write based on it is shown the current text
MOST_LINES = 300_000  # entries in a file's blame, more than any file has


# --- sessions and messages ------------------------------------------------------------------------


def end_strangers(session: Session, taking_in: Any) -> None:
    """End sessions from another person's archive, since their messages aren't the owner's words."""
    if not taking_in.is_own and session.ended_at is None:
        session.ended_at = timezone.now()


def message_problem(message: Message) -> str:
    """Return why a row can't be a message, or ""."""
    if message.role not in _ROLES:
        return _("its role is unknown")
    if not isinstance(message.cites, list) or not isinstance(message.tool_calls, list):
        return _("its citations or tool calls aren’t a list")
    return ""


def lay_down(message: Message, taking_in: Any) -> None:
    """Fail answers that were still pending in the archive, and keep only valid citations and calls."""
    if message.state in PENDING:
        message.state = Message.State.FAILED
        message.notice = _("The answer wasn’t finished when the archive was created.")
    message.lease_until = None
    cites = [_texts(one, taking_in) for one in message.cites if isinstance(one, Mapping)]
    message.cites = [one for one in cites if _may_be_cited(one, message.role)]
    calls = [_call(one, taking_in) for one in message.tool_calls if isinstance(one, Mapping)]
    message.tool_calls = [call for call in calls if call["tool"]]


def _texts(given: Mapping[str, Any], taking_in: Any) -> dict[str, str]:
    """Return the text fields of a record that an answer names."""
    kept = {name: given[name] for name in _TEXTS if isinstance(given.get(name), str)}
    if "trust" in kept:
        kept["trust"] = _trust(kept["trust"], taking_in)
    return {"type": "", "id": "", "title": "", **kept}


def _trust(text: str, taking_in: Any) -> str:
    """Return the trust: external for another person's archive, or if the value is unknown."""
    known = text in Trust.values and (taking_in.is_own or text == Trust.QUARANTINED)
    return text if known else Trust.EXTERNAL.value


def _may_be_cited(cite: Mapping[str, str], role: str) -> bool:
    is_marked = role == "user" or MARK.fullmatch(f"[{cite.get('mark', '')}]") is not None
    return is_marked and bool(cite["type"]) and _is_uuid(cite["id"])


def _call(given: Mapping[str, Any], taking_in: Any) -> dict[str, Any]:
    """Return a tool call in the form of `CallRecord`."""
    number, arguments = given.get("round"), given.get("arguments")
    kept = {
        "round": number if type(number) is int else 1,
        "tool": _text(given.get("tool"))[:64],
        "arguments": arguments if isinstance(arguments, dict) else {},
        "result": _text(given.get("result")),
        "is_error": bool(given.get("is_error")),
        "records": [_texts(one, taking_in) for one in _dicts(given.get("records"))],
        "trust": _trust(_text(given.get("trust")), taking_in),
        "seen": _seen(given.get("seen"), taking_in),
    }
    proposal = _text(given.get("proposal"))
    return {**kept, "proposal": proposal} if _is_uuid(proposal) else kept


def _seen(given: Any, taking_in: Any) -> dict[str, int]:
    """Return the file versions that were read; none for another person's archive."""
    versions = given.items() if isinstance(given, Mapping) else ()
    kept = {path: version for path, version in versions if type(version) is int and version >= 0}
    return kept if taking_in.is_own else dict.fromkeys(kept, _NOT_SEEN)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _dicts(value: Any) -> list[dict[str, Any]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _is_uuid(text: str) -> bool:
    try:
        return str(UUID(text)) == text
    except ValueError:
        return False


def lead_home(taking_in: Any, messages: list[Message]) -> None:
    """Point the citations and proposals of messages to the owner's records, and remove others."""
    telling = [one for one in messages if one.cites or one.tool_calls]
    places = _places(taking_in.owner, [cite for one in telling for cite in one.cites])
    held = [call["proposal"] for one in telling for call in one.tool_calls if "proposal" in call]
    found = Proposal.objects.of(taking_in.owner).filter(pk__in=held).values_list("pk", flat=True)
    waiting = set(map(str, found))
    for message in telling:
        if message.role == "user":  # its notes, which have their own links
            message.cites = [cite for cite in message.cites if places.get(cite["id"])]
        for cite in message.cites:
            cite["url"] = places.get(cite["id"], "")
        for call in message.tool_calls:
            if call.get("proposal") not in waiting:
                call.pop("proposal", None)
    Message.objects.bulk_update(telling, ["cites", "tool_calls"], batch_size=200)


def _places(owner: User, cites: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """Return the URLs of the existing records by ID, with one query per type."""
    keys: dict[str, set[str]] = {}
    places: dict[str, str] = {}
    files = {one.get_absolute_url() for one in MemoryFile.objects.of(owner).live().only("path")}
    for cite in cites:
        keys.setdefault(cite["type"], set()).add(cite["id"])
        # A section is created again with its file, so only its place on the file's page is kept.
        if cite.get("url", "").partition("#")[0] in files:
            places[cite["id"]] = cite["url"]
    for name, wanted in keys.items():
        model = KINDS[name].model if name in KINDS else record_kinds.models().get(name)
        for record in model.objects.filter(owner=owner, pk__in=wanted) if model else ():
            places[str(record.pk)] = named(record)["url"]
    return places


# --- reflections ----------------------------------------------------------------------------------


def reflection_problem(reflection: Reflection) -> str:
    """Return why a row can't be a reflection, or ""."""
    calls, changes = reflection.calls, reflection.changes
    if not isinstance(calls, list) or not all(map(_is_call, calls)):
        return _("“calls” isn’t a list of calls")
    if not isinstance(changes, list) or not all(map(_is_change, changes)):
        return _("“changes” isn’t a list of changes")
    return ""


def _is_call(one: Any) -> bool:
    wanted = {"tool": str, "arguments": dict, "result": str, "is_error": bool}
    return isinstance(one, dict) and all(type(one.get(name)) is of for name, of in wanted.items())


def _is_change(one: Any) -> bool:
    if not isinstance(one, dict) or not isinstance(one.get("path"), str):
        return False
    if one.get("act") == "held":
        return _is_uuid(_text(one.get("proposal")))
    return one.get("act") == "written" and type(one.get("version")) is int


def look_back_no_more(reflection: Reflection, _taking_in: Any) -> None:
    """Skip reflections that were still pending in the archive."""
    if reflection.state == Reflection.State.WAITING:
        reflection.state = Reflection.State.SKIPPED
        reflection.why = _("the archive was created before its reflection ran")
        reflection.finished_at = timezone.now()


# --- proposals, drafts, revisions -----------------------------------------------------------------


def proposal_problem(proposal: Proposal) -> str:
    """Return why a row can't be a proposal, or ""."""
    texts = (proposal.before, proposal.after, proposal.edited)
    if proposal.record_type not in APPLY or not all(isinstance(one, dict) for one in texts):
        return _("it proposes a kind of change that this version of Beacon doesn’t support")
    results = proposal.results
    if not isinstance(results, list) or not all(map(_is_result, results)):
        return _("“%(field)s” isn’t valid") % {"field": "results"}
    try:
        APPLY[proposal.record_type].check(proposal)
    except MemoryRefused as exc:
        return str(exc)
    except (TypeError, AttributeError, ValueError):
        return _("its proposed change isn’t valid")
    return ""


def _is_result(one: Any) -> bool:
    """Whether the value names a revision by record type, record and version."""
    if not isinstance(one, list) or [type(part) for part in one] != [str, str, int]:
        return False
    return _is_uuid(one[1])


def say_whose(proposal: Proposal, taking_in: Any) -> None:
    """Mark proposals from another person's archive, and rate their danger again, since an archive can claim any."""
    stranger = () if taking_in.is_own else (Risk("stranger"),)
    risks.rate(proposal, proposal.held_because, more=stranger)
    if stranger:
        proposal.source = taking_in.source
        why = [stranger[0].words, proposal.held_because]
        proposal.held_because = "; ".join(filter(None, why))


def conflict_problem(conflict: Conflict) -> str:
    """Return why a row can't be a conflict, or ""."""
    if not {conflict.left_type, conflict.right_type} <= set(CONFLICT_TYPES):
        return _("its records are of types that can’t conflict")
    if conflict.left_id == conflict.right_id:
        return _("a record can’t conflict with itself")
    results = conflict.results
    if not isinstance(results, list) or not all(map(_is_result, results)):
        return _("“%(field)s” isn’t valid") % {"field": "results"}
    return ""


def stand_back(conflict: Conflict, taking_in: Any) -> None:
    """Resolve an imported conflict that is already open here."""
    here = Conflict.objects.of(taking_in.owner).between(conflict.left_id, conflict.right_id)
    if conflict.is_open and here.open().exclude(pk=conflict.pk).exists():
        conflict.state, conflict.settled_how = Conflict.State.SETTLED, Conflict.How.GONE
        conflict.settled_by, conflict.settled_at = str(taking_in.by), timezone.now()


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
    return sum(int(run[0]) for run in runs) <= MOST_LINES
