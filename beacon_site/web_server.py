"""How long an address may be: gunicorn's configuration, beside the arguments in `runner.py`.

A question in a search field has up to 10,000 characters, and Chinese ones take nine bytes each in
an address.  gunicorn refuses what is longer than 8,190 bytes with an answer of its own that says
nothing to a person, and cuts a larger limit down to that: so the bound itself is set here.
"""

from __future__ import annotations

from gunicorn.http import message  # type: ignore[import-untyped]

LONGEST = 128 * 1024

message.MAX_REQUEST_LINE = LONGEST
limit_request_line = LONGEST - 1
limit_request_field_size = LONGEST  # Referer and HX-Current-URL repeat the address
