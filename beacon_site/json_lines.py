"""The log of `make up` where it is to be JSON: every line is one object, whoever wrote it."""

from __future__ import annotations

import json
from datetime import UTC

from honcho.printer import Message, Printer

from beacon_site.redaction import redact_line


class JsonPrinter(Printer):  # type: ignore[misc]
    """honcho's printer without its column; what is no object yet becomes one."""

    def write(self, message: Message) -> None:
        """Print the lines of a message."""
        data = message.data
        text = data.decode("utf-8", "replace") if isinstance(data, bytes) else str(data)
        for line in text.splitlines():
            if line.strip():
                print(_as_object(line, message), file=self.output, flush=True)


def _as_object(line: str, message: Message) -> str:
    """Return the line as it is if it is an object, else wrapped in one.

    What a process writes past its log (a warning of the interpreter, its last words) is wrapped.
    """
    if line.startswith("{") and line.endswith("}"):
        return line
    said = {
        "timestamp": message.time.astimezone(UTC).isoformat(),
        "level": "info",
        "event": redact_line(line) if message.name not in OWN else line,
        "process": message.name or "",
    }
    return json.dumps(said)


# Beacon's own words, among them the first account's link, which is told this once.
OWN = ("beacon", "system")
