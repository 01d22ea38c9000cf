"""The media types of the documents that Beacon reads."""

MARKDOWN, PLAIN = "text/markdown", "text/plain"
HTML, PDF = "text/html", "application/pdf"
_OFFICE = "application/vnd.openxmlformats-officedocument."
DOCX = _OFFICE + "wordprocessingml.document"
PPTX = _OFFICE + "presentationml.presentation"
XLSX = _OFFICE + "spreadsheetml.sheet"
EPUB = "application/epub+zip"
EML = "message/rfc822"
SRT, VTT = "application/x-subrip", "text/vtt"

OFFICE_KINDS = frozenset({DOCX, PPTX, XLSX, EPUB, EML, SRT, VTT})  # for extract_office.py
