"""`/library`: documents that runs search. A text, a web page or a file can be added."""

from __future__ import annotations

import base64
import binascii
from datetime import datetime
from typing import Any
from uuid import UUID

from django.core.files.uploadedfile import SimpleUploadedFile
from django.http import HttpResponse
from django.utils.translation import gettext as _
from ninja import Query, Status
from pydantic import Field

from memory.api.auth import READ, WRITE, ApiRequest
from memory.api.frame import Body, located, router
from memory.api.paging import Listing, PageParams, listing
from memory.api.problems import Problem
from memory.api.review import check_unreviewed
from memory.api.shown import RecordOut, open_to_agents, used
from memory.api.versions import tagged
from memory.models import LibraryDocument
from memory.models.errors import InvalidValue
from memory.services.library import documents
from memory.services.library.reading import MAX_BYTES, MAX_TITLE_LENGTH

api = router("library")
MAX_URL_LENGTH = 2048
MAX_ENCODED = MAX_BYTES * 4 // 3 + 4


class DocumentIn(Body):
    """A text, a web page or a file. If you send a text, `url` is its origin."""

    title: str = Field(
        "", max_length=MAX_TITLE_LENGTH, description="Default: the document’s own title."
    )
    text: str = Field("", max_length=2_000_000, description="Markdown or plain text.")
    url: str = Field(
        "",
        max_length=MAX_URL_LENGTH,
        pattern=r"^(https?://.*)?$",
        description="The URL of a web page. Beacon fetches its text unless you send `text`.",
    )
    file_name: str = Field(
        "",
        max_length=255,
        description="The file’s name. The extension determines the type, such as .pdf or .docx.",
    )
    file: str = Field(
        "", max_length=MAX_ENCODED, description="The file’s content in base64, at most 5 MiB."
    )


class DocumentsQuery(PageParams):
    """Which page of the documents, newest first."""


class DocumentOut(RecordOut):
    """A document without its text."""

    id: UUID
    title: str
    url: str
    media_type: str
    size: int = Field(description="Bytes.")
    problem: str = Field(description="Why it couldn’t be read. Empty if it could.")
    sensitivity: str
    trust: str
    version: int
    created: datetime
    updated: datetime


class DocumentTextOut(DocumentOut):
    """A document with its text."""

    text: str


@api.get("", auth=READ, response=Listing[DocumentOut])
def list_documents(request: ApiRequest, query: Query[DocumentsQuery]) -> Listing[DocumentOut]:
    """List your own documents, newest first. Documents in the watched folder aren’t included."""
    caller = request.auth
    rows = LibraryDocument.objects.for_user(caller.owner).live().filter(path="").defer("text")
    return listing(open_to_agents(caller, rows), query, name="library", out=DocumentOut.about)


@api.get("/{uuid:document_id}", auth=READ, response=DocumentTextOut)
def read_document(
    request: ApiRequest, response: HttpResponse, document_id: UUID
) -> DocumentTextOut:
    """Read one of your documents."""
    caller = request.auth
    rows = LibraryDocument.objects.for_user(caller.owner).live().filter(path="", pk=document_id)
    document = open_to_agents(caller, rows).first()
    if document is None:
        raise Problem(404, _("There is no document with this ID."))
    used(caller, document)
    tagged(response, document)
    return DocumentTextOut.about(document)


@api.post("", auth=WRITE, response={201: DocumentOut})
def add_document(request: ApiRequest, response: HttpResponse, body: DocumentIn) -> Any:
    """Add a document. Runs can find it like a web page, and quote it as external text."""
    caller = request.auth
    check_unreviewed(caller, "library", _("Adding a document"))
    try:
        document = documents.add_document(
            caller.owner,
            title=body.title,
            text=body.text,
            url=body.url,
            file=_file(body),
            trust=caller.write_trust,
            by=caller.by,
        )
    except InvalidValue as exc:
        raise Problem(422, str(exc), errors=exc.errors) from exc
    located(response, f"/library/{document.pk}")
    return Status(201, DocumentOut.about(document))


def _file(body: DocumentIn) -> SimpleUploadedFile | None:
    if not body.file:
        return None
    if body.text or body.url or not body.file_name:
        why = _("Send a file with its file_name, but without text or url.")
        raise Problem(422, why, errors={"file": [why]})
    try:
        return SimpleUploadedFile(body.file_name, base64.b64decode(body.file, validate=True))
    except binascii.Error as exc:
        why = _("The file isn’t valid base64.")
        raise Problem(422, why, errors={"file": [why]}) from exc
