"""The parent's side of reading text out of pages: one warm child a process, killed when it hangs.

HTML and PDF readers can be made to work for minutes, and no signal handler or thread stops
them.  So they work in a child (`extract_child.py`) that is started when it is first needed
and kept over pages; one that takes too long or too much memory is killed, its page refused,
and the next page gets a new one.
"""

from __future__ import annotations

import atexit
import base64
import contextlib
import json
import os
import re
import selectors
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any

import psutil
import structlog
from django.utils.translation import gettext as _

from beacon_site.providers.errors import ProviderRejected, ProviderUnavailable

logger = structlog.get_logger(__name__)

MIB = 1024 * 1024
COMMAND = (sys.executable, "-m", "beacon_site.providers.extract_child")
SECONDS_PER_PAGE = 10.0
MEMORY_LIMIT = 512 * MIB
# A child is also replaced, between pages, before small leaks add up.
PAGES_PER_CHILD = 1000
# Starting costs a second or two on a loaded machine, and is not the page's fault.
START_SECONDS = 30.0
# How long a page waits for its turn: a few hostile ones before it must not cost it its place.
QUEUE_SECONDS = 60.0
ANSWER_LIMIT = 24 * MIB
LOOK_SECONDS = 0.05
# A child that ends so soon after it was given a page may have been dead before: asked again.
AT_ONCE = 1.0


@dataclass(frozen=True, slots=True)
class Extracted:
    """What a page says: text with a blank line between paragraphs, and what is known of it."""

    text: str
    title: str = ""
    published_at: date | None = None
    language: str = ""


class Extractor:
    """Reads pages through one child process; safe to share between threads and over a fork."""

    def __init__(
        self,
        *,
        seconds: float = SECONDS_PER_PAGE,
        memory_limit: int = MEMORY_LIMIT,
        command: Sequence[str] = COMMAND,
    ) -> None:
        """`seconds` is for one page, `memory_limit` in bytes of resident memory."""
        self._seconds = seconds
        self._memory_limit = memory_limit
        self._command = tuple(command)
        self._turn = threading.Lock()
        self._child: subprocess.Popen[bytes] | None = None
        self._ready = False
        self._pages = 0
        _living.add(self)

    def extract(self, content: bytes, *, content_type: str = "", url: str = "") -> Extracted:
        """Read one document: HTML, PDF, Markdown or plain text, in any charset.

        Raises ProviderRejected if there is nothing in it to read or it cannot be read within
        the limits, and ProviderUnavailable if the reader is too busy or cannot be started.
        """
        page = {
            "content": base64.b64encode(content).decode("ascii"),
            "content_type": content_type,
            "url": url,
        }
        request = json.dumps(page).encode("ascii") + b"\n"
        if not self._turn.acquire(timeout=QUEUE_SECONDS):
            raise ProviderUnavailable(_("Too many pages wait to be read; this one was given up."))
        try:
            answer = self._ask(request)
        finally:
            self._turn.release()
        trouble = str(answer.get("trouble", ""))
        if trouble:
            raise ProviderRejected(explain(trouble))
        return Extracted(
            text=valid_text(str(answer.get("text", ""))),
            title=valid_text(str(answer.get("title", ""))),
            published_at=_date(answer.get("date")),
            language=valid_text(str(answer.get("language", ""))),
        )

    def warm_up(self) -> None:
        """Start the child now, without waiting for it, so that the first page need not."""
        if self._turn.acquire(blocking=False):
            try:
                self._running_child()
            finally:
                self._turn.release()

    def close(self) -> None:
        """Kill the child, if there is one; the next page starts another."""
        child, self._child = self._child, None
        if child is None:
            return
        child.kill()
        child.wait()
        for pipe in (child.stdin, child.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()

    def forget(self) -> None:
        """Let go of a child that belongs to the process this one was forked from."""
        self._turn = threading.Lock()
        child, self._child = self._child, None
        if child is None:
            return
        child.returncode = 0  # not ours to wait for
        for pipe in (child.stdin, child.stdout):
            if pipe is not None:
                # The child must see the end of its input when its own parent dies.
                pipe.close()

    @property
    def pid(self) -> int | None:
        """The process id of the child, if there is one."""
        child = self._child
        return child.pid if child is not None else None

    def _ask(self, request: bytes) -> dict[str, Any]:
        """Have one page read; a child that died, perhaps while it was idle, is replaced once."""
        for attempt in (1, 2):
            child = self._running_child()
            try:
                answer = self._exchange(child, request)
            except _Hung as exc:
                self.close()
                logger.warning("page reader was killed", why=exc.trouble)
                return {"trouble": exc.trouble}
            except OSError:
                self.close()
                if attempt == 2:
                    break
                continue
            self._retire(child)
            return answer
        return {"trouble": "crashed"}

    def _running_child(self) -> subprocess.Popen[bytes]:
        child = self._child
        if child is not None and child.poll() is None:
            return child
        self.close()
        root = str(Path(__file__).resolve().parents[2])
        paths = [root, *filter(None, [os.environ.get("PYTHONPATH")])]
        try:
            child = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                bufsize=0,
                cwd=root,
                # No key and no password of ours is any business of a page's reader.
                env={
                    "PATH": os.environ.get("PATH", os.defpath),
                    "PYTHONPATH": os.pathsep.join(paths),
                    "PYTHONUTF8": "1",
                },
                # Ctrl-C is for the parent; the child ends when its input does.
                start_new_session=True,
            )
        except OSError as exc:
            raise ProviderUnavailable(
                _("The page reader could not be started: %(why)s.") % {"why": exc.strerror}
            ) from exc
        for pipe in (child.stdin, child.stdout):
            if pipe is not None:
                os.set_blocking(pipe.fileno(), False)
        self._child, self._pages, self._ready = child, 0, False
        return child

    def _exchange(self, child: subprocess.Popen[bytes], request: bytes) -> dict[str, Any]:
        """Send a page and wait for its text, watching the clock and the child's memory.

        Raises _Hung when a limit is passed, or when the child ended over this page, and
        OSError (a broken pipe) when it may have ended before.
        """
        if not self._ready:
            self._converse(child, b"", time.monotonic() + START_SECONDS)
            self._ready = True
        line = self._converse(child, request, time.monotonic() + self._seconds)
        self._pages += 1
        answer = json.loads(line)
        return answer if isinstance(answer, dict) else {"trouble": "crashed"}

    def _converse(self, child: subprocess.Popen[bytes], request: bytes, until: float) -> bytes:
        """Write `request` and read one line, neither of which may block beyond `until`."""
        stdin, stdout = child.stdin, child.stdout
        if stdin is None or stdout is None:
            raise BrokenPipeError
        left, line, began = memoryview(request), bytearray(), time.monotonic()
        with selectors.DefaultSelector() as selector:
            selector.register(stdout, selectors.EVENT_READ)
            if left:
                selector.register(stdin, selectors.EVENT_WRITE)
            while not line.endswith(b"\n"):
                self._look_after(child, until)
                for key, _events in selector.select(LOOK_SECONDS):
                    if key.fileobj is stdin:
                        left = left[os.write(key.fd, left) :]
                        if not left:
                            selector.unregister(stdin)
                        continue
                    piece = os.read(key.fd, 1 << 20)
                    if not piece and time.monotonic() - began < AT_ONCE:
                        raise BrokenPipeError
                    if not piece or len(line) + len(piece) > ANSWER_LIMIT:
                        raise _Hung("crashed")
                    line += piece
        return bytes(line)

    def _look_after(self, child: subprocess.Popen[bytes], until: float) -> None:
        if time.monotonic() > until:
            raise _Hung("slow")
        if _resident_bytes(child.pid) > self._memory_limit:
            raise _Hung("memory")

    def _retire(self, child: subprocess.Popen[bytes]) -> None:
        """End a child that has done enough, so that what it leaked goes with it."""
        worn = _resident_bytes(child.pid) > self._memory_limit // 2
        if worn or self._pages >= PAGES_PER_CHILD:
            self.close()


class _Hung(Exception):
    """The child has to go, and the page with it; `trouble` says why."""

    def __init__(self, trouble: str) -> None:
        super().__init__(trouble)
        self.trouble = trouble


_living: weakref.WeakSet[Extractor] = weakref.WeakSet()


def _forget_inherited() -> None:
    for extractor in list(_living):
        extractor.forget()


def _close_all() -> None:
    for extractor in list(_living):
        extractor.close()


os.register_at_fork(after_in_child=_forget_inherited)
atexit.register(_close_all)


@cache
def get_extractor() -> Extractor:
    """Return the one extractor of this process; its child starts with the first page."""
    return Extractor()


def _resident_bytes(pid: int) -> int:
    try:
        return int(psutil.Process(pid).memory_info().rss)
    except psutil.Error:
        return 0


def _date(value: object) -> date | None:
    try:
        return date.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return None


def valid_text(text: str) -> str:
    """Return the text without NUL, lone surrogates and other characters that are none.

    Line feeds and tabs stay.  What this returns can be encoded as UTF-8 and stored.
    """
    return _SURROGATES.sub("\ufffd", text.translate(_NOT_TEXT))


_SURROGATES = re.compile("[\ud800-\udfff]")
_NOT_TEXT = dict.fromkeys((*range(9), 0x0B, 0x0C, *range(0x0D, 0x20), *range(0x7F, 0xA0)))


def explain(trouble: str) -> str:
    """Say in a sentence why a page was not read; `trouble` is the child's word for it."""
    reasons = {
        "empty": _("There is no text on the page; it may be drawn by a program in the browser."),
        "scanned": _("The PDF holds pictures of pages and no text."),
        "encrypted": _("The PDF is locked by a password."),
        "damaged": _("The document is damaged and cannot be read."),
        "binary": _("What the server sent is not text."),
        "attributes": _("The page is built to stall its reader: a tag with too many attributes."),
        "levels": _("The page is built to stall its reader: tags nested too deep."),
        "slow": _("Reading the page took too long, so it was stopped."),
        "memory": _("Reading the page took too much memory, so it was stopped."),
    }
    return reasons.get(trouble) or _("The page made its reader crash, so it was left out.")
