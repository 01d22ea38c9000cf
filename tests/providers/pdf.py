"""A small handwritten PDF with a text layer, so the test knows its contents."""

from __future__ import annotations

import io

from pypdf import PdfReader, PdfWriter


def pdf(*lines: str, title: str = "", password: str = "") -> bytes:
    """One page with these lines of Latin text; none gives a page without text."""
    shown = " T* ".join(f"({line}) Tj" for line in lines)
    stream = f"BT /F1 12 Tf 14 TL 72 720 Td {shown} ET".encode() if lines else b""
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        (
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R "
            b"/Resources << /Font << /F1 5 0 R >> >> >>"
        ),
        b"<< /Length %d >>\nstream\n%b\nendstream" % (len(stream), stream),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    written = bytearray(b"%PDF-1.4\n")
    places = []
    for number, body in enumerate(objects, 1):
        places.append(len(written))
        written += b"%d 0 obj\n%b\nendobj\n" % (number, body)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    start = len(written)
    written += b"xref\n0 6\n0000000000 65535 f \n" + table
    written += b"trailer << /Size 6 /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF" % start
    if not title and not password:
        return bytes(written)
    writer = PdfWriter(clone_from=PdfReader(io.BytesIO(written)))
    writer.add_metadata({"/Title": title, "/CreationDate": "D:20260314120000Z"})
    if password:
        writer.encrypt(password, algorithm="RC4-128")
    packed = io.BytesIO()
    writer.write(packed)
    return packed.getvalue()
