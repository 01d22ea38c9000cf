"""Stops a run at an exact place: triggers in the test's database, and gates at the servers.

A stop names a topic and a place; the run that reaches it waits until the test lets it go or kills
it.  Nothing of this is known to the product.

    stops.at("Harbour cranes 03", "step write running")   # the write step is about to begin
    port = stops.caught("Harbour cranes 03")               # the held process's port to the server
    stops.lift("Harbour cranes 03")                        # its statement is rolled back
"""

from __future__ import annotations

import threading
from types import TracebackType

import psycopg
from psycopg import sql
from werkzeug import Request, Response

from tests.faults.processes import Site
from tests.providers.servers import bare, status

_CLASS = 7731  # of the advisory locks that runs wait for

_SETUP = """
DROP TABLE IF EXISTS fault_stop;
CREATE TABLE fault_stop (id serial PRIMARY KEY, title text, place text);
CREATE OR REPLACE FUNCTION fault_hold(wanted text, reached text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE found integer;
BEGIN
  SELECT id INTO found FROM fault_stop WHERE title = wanted AND place = reached;
  IF found IS NOT NULL THEN PERFORM pg_advisory_lock_shared(%(class)s, found); END IF;
END $$;
CREATE OR REPLACE FUNCTION fault_title(of_run bigint) RETURNS text LANGUAGE sql AS $$
  SELECT t.title FROM research_run r JOIN memory_topic t ON t.id = r.topic_id WHERE r.id = of_run
$$;
CREATE OR REPLACE FUNCTION fault_step() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF NEW.state <> OLD.state THEN
    PERFORM fault_hold(fault_title(NEW.run_id), 'step ' || NEW.name || ' ' || NEW.state);
  END IF;
  RETURN NEW;
END $$;
CREATE OR REPLACE TRIGGER fault_step BEFORE UPDATE ON research_step
  FOR EACH ROW EXECUTE FUNCTION fault_step();
CREATE OR REPLACE FUNCTION fault_of_run() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  PERFORM fault_hold(fault_title((to_jsonb(NEW) ->> TG_ARGV[0])::bigint), TG_ARGV[1]);
  RETURN NEW;
END $$;
CREATE OR REPLACE FUNCTION fault_of_topic() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE wanted text;
BEGIN
  SELECT title INTO wanted FROM memory_topic
    WHERE id = (to_jsonb(NEW) ->> TG_ARGV[0])::uuid;
  PERFORM fault_hold(wanted, TG_ARGV[1]);
  RETURN NEW;
END $$;
"""
_TRIGGERS = (
    # name, when, function, column that leads to the run or topic, place
    ("baseline", "UPDATE OF is_baseline ON research_run", "fault_of_run", "id", "loading"),
    ("counted", "UPDATE OF new_count ON research_run", "fault_of_run", "id", "filtering"),
    ("hit", "INSERT ON research_hit", "fault_of_run", "run_id", "keeping hits"),
    ("page", "INSERT ON memory_contentitem", "fault_of_topic", "topic_id", "keeping a page"),
    ("call", "INSERT ON memory_modelcall", "fault_of_topic", "topic_id", "recording a call"),
    ("fact", "INSERT ON memory_topicfact", "fault_of_topic", "topic_id", "adding a fact"),
    ("tool", "INSERT ON research_toolcall", "fault_of_run", "run_id", "recording a tool call"),
    ("report", "INSERT ON research_report", "fault_of_run", "run_id", "saving the report"),
    ("saved", "UPDATE OF run_count ON memory_topic", "fault_of_topic", "id", "saving the number"),
)


class Stops:
    """The stops of one site; a context manager, whose end lets everything go."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._ids: dict[str, int] = {}

    def __enter__(self) -> Stops:
        self._holder = psycopg.connect(self._site.url, autocommit=True)
        self._holder.execute(_SETUP % {"class": _CLASS})
        for name, event, function, column, place in _TRIGGERS:
            self._holder.execute(
                sql.SQL(
                    "CREATE OR REPLACE TRIGGER {} BEFORE {} FOR EACH ROW EXECUTE FUNCTION {}({}, {})"
                ).format(
                    sql.Identifier(f"fault_{name}"), sql.SQL(event), sql.Identifier(function),
                    sql.Literal(column), sql.Literal(place),
                )
            )  # fmt: skip
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._holder.close()  # then whatever waits continues
        self._site.rows("DELETE FROM fault_stop")

    def at(self, title: str, place: str) -> None:
        """Have the run of the topic `title` wait when it comes to `place`."""
        found = self._holder.execute(
            "INSERT INTO fault_stop (title, place) VALUES (%s, %s) RETURNING id", [title, place]
        ).fetchone()
        assert found is not None
        self._ids[title] = found[0]
        self._holder.execute("SELECT pg_advisory_lock(%s, %s)", [_CLASS, found[0]])

    def caught(self, title: str) -> int | None:
        """Return the TCP port of the process that waits at the topic's stop, or None."""
        return self._waiting(title, "client_port")

    def lift(self, title: str) -> None:
        """Take the stop away; the statement that waits at it is rolled back, as it were never sent."""
        backend = self._waiting(title, "pid")
        number = self._ids.pop(title)
        self._holder.execute("DELETE FROM fault_stop WHERE id = %s", [number])
        if backend is not None:
            self._holder.execute("SELECT pg_terminate_backend(%s, 5000)", [backend])
        self._holder.execute("SELECT pg_advisory_unlock(%s, %s)", [_CLASS, number])

    def unlink_from_chains(self, title: str) -> None:
        """Take the stop away; what waits at it continues."""
        number = self._ids.pop(title)
        self._holder.execute("DELETE FROM fault_stop WHERE id = %s", [number])
        self._holder.execute("SELECT pg_advisory_unlock(%s, %s)", [_CLASS, number])

    def _waiting(self, title: str, column: str) -> int | None:
        found = self._holder.execute(
            sql.SQL(
                "SELECT a.{} FROM pg_locks l JOIN pg_stat_activity a USING (pid)"
                " WHERE l.locktype = 'advisory' AND NOT l.granted"
                " AND l.classid = %s AND l.objid = %s AND a.datname = current_database()"
            ).format(sql.Identifier(column)),
            [_CLASS, self._ids[title]],
        ).fetchone()
        return int(found[0]) if found else None


class Gate:
    """A scene that keeps callers waiting until it is opened, and notes who they were."""

    def __init__(self) -> None:
        self.port: int | None = None  # of the one who waits
        self._open = threading.Event()
        self._answer: object = {}

    def answer(self, data: object) -> None:
        """Let the waiting callers continue, with this answer of a model."""
        self._answer = data
        self.open()

    def open(self) -> None:
        """Let the waiting callers continue, with a failure if there is no answer."""
        self._open.set()

    def __call__(self, request: Request) -> Response:
        self.port = int(request.environ["REMOTE_PORT"])
        self._open.wait(300)
        return bare(self._answer)(request) if self._answer else status(503)(request)
