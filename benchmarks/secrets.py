"""Time to look for keys and passwords: `python -m benchmarks.secrets`.

Prints the processor time for each text of the documentation, for one large text, and for texts
that repeat the beginning of a pattern, which is what makes a bad regular expression slow.
"""

from __future__ import annotations

import statistics
import time
from pathlib import Path

from beacon_site.text.secret_scanner import find

DOCS = Path(__file__).resolve().parent.parent / "docs"
NOTE = 4096  # characters
HOSTILE = (
    "-----BEGIN PRIVATE KEY-----", "eyJhb.eyJ", "ops_eyJ", "pypi-AgE", "sk-proj-", "token_", "token=",
    "a://b:c", "github_pat_", "xoxb-1", "Authorization: Bearer ", "aws secret ", "abcdef0-us",
)  # fmt: skip


def milliseconds(text: str, times: int = 20) -> float:
    find(text)
    started = time.process_time()
    for _round in range(times):
        find(text)
    return (time.process_time() - started) / times * 1000


def main() -> None:
    whole = "\n".join(path.read_text() for path in sorted(DOCS.rglob("*.md")))
    notes = [whole[place : place + NOTE] for place in range(0, len(whole) - NOTE, NOTE)]
    took = sorted(milliseconds(note) for note in notes)
    print(f"{len(notes)} notes of {NOTE} characters: median {statistics.median(took):.3f} ms, "
          f"p95 {took[int(len(took) * 0.95)]:.3f} ms")  # fmt: skip
    large = (whole * 40)[:8_000_000]
    print(f"one text of 8,000,000 characters: {milliseconds(large, 1):,.0f} ms")
    for unit in HOSTILE:
        text = unit * (1_000_000 // len(unit))
        print(f"1,000,000 characters of {unit!r}: {milliseconds(text, 1):,.0f} ms")


if __name__ == "__main__":
    main()
