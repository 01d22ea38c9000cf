"""The loop of the programs that `beacon_site.net.extract.ChildProcess` starts."""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
from collections.abc import Callable
from typing import Any

ADDRESS_SPACE = 2 * 1024 * 1024 * 1024
Answer = Callable[[dict[str, Any]], dict[str, Any]]


def serve(prepare: Callable[[], Answer], *, alarm: int, address_space: int = ADDRESS_SPACE) -> None:
    """Answer line by line until the input ends.

    `prepare` loads everything and returns the function that answers. `alarm` is in seconds, for a
    child whose parent was killed; it's longer than the parent's limit. `address_space` (0: any)
    stops a huge allocation between two checks of the parent, which look at resident memory.
    """
    # Redirect standard output to standard error, so that libraries that print don't corrupt answers.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    if address_space and hard == resource.RLIM_INFINITY and sys.platform == "linux":
        resource.setrlimit(resource.RLIMIT_AS, (address_space, hard))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    answer = prepare()
    answers.write(b"{}\n")
    answers.flush()
    # The signal isn't caught, so the kernel ends the process even inside a library that hangs.
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    for line in sys.stdin.buffer:
        signal.alarm(alarm)
        answers.write(json.dumps(answer(json.loads(line))).encode("ascii") + b"\n")
        answers.flush()
        signal.alarm(0)
