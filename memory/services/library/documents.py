"""The library: adding documents, and searching them and the watched folder's."""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Collection
from uuid import UUID

import structlog
from django.conf import settings
from django.core.files.uploadedfile import UploadedFile
from django.db import transaction
from django.db.models.functions import Left
from django.utils.text import capfirst

from beacon_site.net.charsets import HTML, MARKDOWN, PLAIN
from beacon_site.net.errors import ProviderError, ProviderRejected
from beacon_site.net.fetch import WebPage, get_fetcher, reason_against
from beacon_site.net.reflow import join_file
from beacon_site.providers.search.base import SearchHit, SearchOptions
from beacon_site.text.cleaning import clean, ended, one_line, uuid_of
from beacon_site.text.messages import gettext as _
from beacon_site.text.secret_scanner import mask
from beacon_site.text.terms import ENGLISH, query_terms
from memory.models import LibraryDocument, LibraryFolder, Sensitivity, Trust, User
from memory.models.actors import Actor
from memory.models.errors import InvalidValue
from memory.models.library import ADDRESS, FOLDER, OWN, LibraryQuerySet, page_of
from memory.services.library import folder as library_folder
from memory.services.library.reading import MAX_BYTES, MAX_TITLE_LENGTH, DocumentText, read_document
from memory.services.notes.saving import lowest_trust
from memory.services.search import bm25, bm25_sql
from memory.services.search.snippets import MAX_SEARCHED_LENGTH, nearness, passage

logger = structlog.get_logger(__name__)

SERVICE = "library"
# A document is off topic if no passage contains more than half of what the query is about. Of four words
# or more, half is enough: "solar panels" is about "solar panels suppliers and prices".
MIN_NEARNESS = 0.5
FEW_WORDS = 4
# If a document's title or folder contains all words of the topic, others must contain most of them.
MIN_NEARNESS_IF_NAMED = 0.7
# Pages that one process fetches at a time. A slow one holds a web thread for half a minute, so an agent
# could stop the site with a dozen.
MAX_FETCHED = 3
_fetching = threading.BoundedSemaphore(MAX_FETCHED)
PAGE_BELOW = "\n\n---\n\n"  # between what a bookmark says and the text of its page
MAX_EXAMINED = 2_000  # documents, if many of the best are excluded by date


# A document that matches a query, its best passage, and the passage's raw BM25 score.
Match = tuple[LibraryDocument, str, float]


def add_document(
    owner: User,
    *,
    title: str = "",
    text: str = "",
    file: UploadedFile[bytes] | None = None,
    url: str = "",
    trust: str = Trust.OWNER,
    by: Actor,
) -> LibraryDocument:
    """Store a document from pasted text (as Markdown), a file or a web page, and return it.

    With `text`, `url` only says where the text is from. Without it, the page is fetched. The
    default `title` is the document's own, or the file's name. Raises InvalidValue with the field
    and the reason if it has no text, is larger than 5 MiB, can't be fetched, or is already in the
    owner's library.
    """
    if file is not None:
        field, reading = "file", _read_file(file)
    elif text.strip() or not url:
        field, reading = "text", read_document("pasted.md", text.encode("utf-8", "surrogatepass"))
    else:
        field, reading = "url", _read_page(url)
    if reading.problem:
        raise _invalid(field, reading.problem)
    named = one_line(clean(title)[0])[:MAX_TITLE_LENGTH]
    document = LibraryDocument(
        owner=owner,
        title=named or reading.title,
        text=reading.text,
        media_type=reading.media_type,
        digest=reading.digest,
        size=reading.size,
        url=url,
        # Text from a web page isn't the words of the person or agent who added it.
        trust=lowest_trust([trust, Trust.EXTERNAL]) if url else trust,
        source=str(by),
    )
    with transaction.atomic():
        # One at a time per person, so that the second of two concurrent calls sees the first.
        User.objects.select_for_update(no_key=True).get(pk=owner.pk)
        own = LibraryDocument.objects.for_user(owner).live().filter(path="")
        twin = own.filter(digest=reading.digest).first()
        if twin is not None:
            problem = _("This document is already in the library: “%(title)s”.")
            raise _invalid(field, problem % {"title": twin})
        LibraryDocument.objects.add([document], by=by)
    return document


def stored_pages(owner: User) -> set[str]:
    """Return the canonical URLs of the web pages whose text is in the library."""
    own = LibraryDocument.objects.for_user(owner).live().filter(path="", media_type=HTML)
    return {page_of(url) for url in own.exclude(url="").values_list("url", flat=True)}


def add_page(document: LibraryDocument, page: DocumentText, *, by: Actor, source: str) -> None:
    """Add the text of a bookmark's page to its document, below what the bookmark says.

    Raises StaleWrite if the document has changed since it was loaded, Locked, and InvalidValue if
    both texts together are too large.
    """
    text = document.text.rstrip() + PAGE_BELOW + page.text
    content = text.encode("utf-8", "surrogatepass")
    if len(content) > MAX_BYTES:
        raise _invalid("url", _("The page’s text is larger than 5 MiB."))
    document.change(
        by=by, source=source, expected_version=document.version, why=_("the page was fetched"),
        text=text, digest=hashlib.sha256(content).hexdigest(), size=len(content), media_type=HTML,
        trust=lowest_trust([document.trust, Trust.EXTERNAL]),  # also if a person edited it before
    )  # fmt: skip


def find(
    user: User, query: str, *, limit: int = 20, among: LibraryQuerySet | None = None
) -> list[Match]:
    """Return the documents that match `query` best, of those that `user` can read."""
    live = LibraryDocument.objects.live() if among is None else among
    return _best_matches(user, query, limit, live)


def text_of(owner: User, address: str) -> WebPage:
    """Return the text for a search result's URL, in exactly that version.

    Raises ProviderRejected if the document is deleted, in Trash, unreadable, or not available to
    `owner`.
    """
    named = ADDRESS.fullmatch(address)
    if named is None:
        raise ProviderRejected(
            _("“%(address)s” isn’t a document in the library.") % {"address": address[:100]}
        )
    document = (
        LibraryDocument.objects.readable_by(owner).live().filter(pk=uuid_of(named.group(1))).first()
    )
    text = document.text_at(int(named.group(2))) if document is not None else None
    if document is None or text is None:
        raise ProviderRejected(_("The document is no longer in the library."))
    if document.problem:
        raise ProviderRejected(document.problem)
    if document.media_type in (MARKDOWN, PLAIN):
        text = join_file(text)
    return WebPage(
        url=address,
        final_url=address,
        title=document.title,
        text=text,
        published_at=document.day,
        content_type=document.media_type,
    )


class LibrarySearch:
    """A SearchProvider for the documents that one person can read."""

    service = SERVICE

    def __init__(self, owner: User) -> None:
        self.owner = owner

    def search(self, query: str, options: SearchOptions) -> list[SearchHit]:
        """Return the best matches, after scanning the folder if that is due.

        Documents last changed before `options.since` and sensitive ones are left out. Returns at
        most `options.limit`, and as many again of those added or changed after
        `options.last_asked`, so that known documents don't crowd out new ones. Each query can
        return twice as many, because queries about one subject find nearly the same documents.
        """
        started = time.monotonic()
        library_folder.scan_if_due()
        normal = LibraryDocument.objects.live().exclude(sensitivity=Sensitivity.SENSITIVE)
        found = _best_matches(self.owner, query, max(0, options.limit), normal, options)
        ms = round((time.monotonic() - started) * 1000)
        logger.info("search answered", service=self.service, hits=len(found), ms=ms)
        return [self._hit(one, rank) for rank, one in enumerate(found, 1)]

    def _hit(self, match: Match, rank: int) -> SearchHit:
        document, words, _score = match
        return SearchHit(
            url=document.address,
            title=document.title,
            snippet=words,
            service=self.service,
            rank=rank,
            published_at=document.day,
        )


def is_empty(owner: User) -> bool:
    """Return True if there is nothing for `owner` to find: no documents, and no watched folder."""
    if settings.BEACON_LIBRARY_DIR:
        return False
    return not LibraryDocument.objects.readable_by(owner).live().exists()


def _best_matches(
    user: User, query: str, limit: int, among: LibraryQuerySet, options: SearchOptions | None = None
) -> list[Match]:
    """Return the best of `among` that `user` can read, with their passages."""
    asked = options or SearchOptions()
    folder = library_folder.state()
    kept: list[tuple[UUID, float]] = []
    # A query names its subject more often than how the question is phrased.
    words = f"{query} {asked.about} {asked.about}".strip()
    limit = 2 * limit if asked.about else limit
    count = 2 * limit if asked.about else limit
    # The ranking doesn't know about dates and sensitivity, so it returns more when these exclude some.
    for depth in (count + 20, MAX_EXAMINED):
        ranked = _ranked(user, folder, words, depth)
        readable = among.readable_by(user).filter(pk__in=[pk for pk, _score in ranked])
        rows = {row.pk: row for row in readable.only("modified_at", "updated")}
        since = asked.since
        kept = [
            one for one in ranked if one[0] in rows and (not since or rows[one[0]].day >= since)
        ]
        if len(ranked) < depth or (len(kept) >= count and not asked.last_asked):
            break
    languages = {ENGLISH}  # and those by which the documents were stemmed
    if asked.about:
        owners = [user] if folder is None else [user, folder.owner]
        languages |= set(map(bm25_sql.language_of, owners))
    best = _rank_passages(kept[:count], query, asked.about, limit, languages)
    if asked.last_asked:
        came = [one for one in kept if rows[one[0]].updated > asked.last_asked][:count]
        known = {document.pk for document, _passage, _score in best}
        new = _rank_passages(came, query, asked.about, limit, languages)
        best += [one for one in new if one[0].pk not in known]
    return best


def _rank_passages(
    ranked: list[tuple[UUID, float]],
    query: str,
    about: str,
    limit: int,
    languages: Collection[str],
) -> list[Match]:
    """Return the best with their passages, ranking those with more of `about` in one passage
    higher.
    """
    beginnings = LibraryDocument.objects.defer("text").annotate(
        beginning=Left("text", MAX_SEARCHED_LENGTH)
    )
    documents = beginnings.in_bulk([pk for pk, _score in ranked])
    found = [(document, score) for pk, score in ranked if (document := documents.get(pk))]
    is_named = about and any(
        nearness(document.named, "", about, one) == 1
        for document, _score in found
        for one in languages
    )
    least = MIN_NEARNESS_IF_NAMED if is_named else MIN_NEARNESS
    is_half_enough = not is_named and all(
        len({*query_terms(about, one)}) >= FEW_WORDS for one in languages
    )
    near: list[tuple[float, LibraryDocument, str]] = []
    for document, score in found:
        share = max(nearness(document.named, document.beginning, about, one) for one in languages)
        if share > least or (is_half_enough and share == least):
            near.append((score * share, document, document.beginning))
    if not near and about and query != about:
        # A topic's title can say nothing about it ("My first topic"). Then its queries must say more.
        return _rank_passages(ranked, query, query, limit, languages)
    near.sort(key=lambda pair: (-pair[0], pair[1].pk))
    return [
        (document, passage(beginning, query), score) for score, document, beginning in near[:limit]
    ]


def _ranked(
    user: User, folder: LibraryFolder | None, query: str, limit: int
) -> list[tuple[UUID, float]]:
    """Return the best of the person's own documents and the folder's, merged by score."""
    ranked = bm25.search(user, OWN, query, limit)
    if folder is not None:
        ranked += bm25.search(folder.owner, FOLDER, query, limit)
    return sorted(ranked, key=lambda pair: (-pair[1], pair[0]))[:limit]


def _read_file(file: UploadedFile[bytes]) -> DocumentText:
    if (file.size or 0) > MAX_BYTES:
        raise _invalid("file", _("The document is larger than 5 MiB."))
    try:
        return read_document(file.name or "", file.read())
    except ProviderError as exc:
        raise _invalid("file", str(exc)) from exc


def _read_page(url: str) -> DocumentText:
    if not _fetching.acquire(blocking=False):
        problem = _("Beacon is fetching other pages for the library. Try again in a minute.")
        raise _invalid("url", problem)
    try:
        return read_page(url)
    except ProviderError as exc:
        raise _invalid("url", str(exc)) from exc
    finally:
        _fetching.release()


def read_page(url: str) -> DocumentText:
    """Fetch a web page through the guard.

    Raises ProviderError, also if the site sent a CAPTCHA or the like, or InvalidValue if it's too
    large.
    """
    page = get_fetcher().fetch(url)
    if why := reason_against(page.title, page.text):
        raise ProviderRejected(ended(capfirst(why)))
    text = mask(page.text)[0]
    content = text.encode("utf-8", "surrogatepass")
    if len(content) > MAX_BYTES:
        raise _invalid("url", _("The page’s text is larger than 5 MiB."))
    digest = hashlib.sha256(content).hexdigest()
    title = one_line(mask(clean(page.title)[0])[0])[:MAX_TITLE_LENGTH] or url[:MAX_TITLE_LENGTH]
    return DocumentText(title, text, HTML, digest, len(content), "")


def _invalid(field: str, why: str) -> InvalidValue:
    return InvalidValue(why, errors={field: [why]})
