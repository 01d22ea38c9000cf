"""`beacon`: the command of an installed Beacon.  manage.py is the same without up and down."""

from __future__ import annotations

import os
import sys

from django.core.management import execute_from_command_line

import beacon_site
from beacon_site.embedded import EmbeddedError
from beacon_site.embedded.commands import servers_for
from beacon_site.embedded.places import data_dir
from beacon_site.launcher import up

HELP = """Beacon {version}: see, search, correct and trust what your AI agent remembers.

  beacon up                    run it until Ctrl-C; prints the address
  beacon down                  stop it, from another terminal
  beacon first_account_link    a new one-time link for the first account
  beacon research TOPIC        run a topic (--sample: the sample topic; --wait: until it is done)
  beacon backup FILE           all data in one file, also while Beacon runs
  beacon restore FILE          replace all data with a backup
  beacon verify [--fix]        check that the stored data is consistent; repair it
  beacon mcp --stdio           the MCP server for a program on this machine
  beacon help [COMMAND]        every command, Django's among them; one of them in full
  beacon --version

For a service manager, each in the foreground: beacon prepare|web|worker|upkeep|beat|mcp

Data folder: {folder}
(BEACON_DATA_DIR names another; settings may stand in its file beacon.env)"""


def main() -> int:
    """Carry out what the command line says; return the exit code."""
    arguments = sys.argv[1:]
    name = arguments[0] if arguments else "--help"
    if name in {"-h", "--help"}:
        print(HELP.format(version=beacon_site.__version__, folder=data_dir()))
        return 0
    if name in {"-V", "--version", "version"}:
        print(f"Beacon {beacon_site.__version__}")
        return 0
    # The MCP server is a command too, which takes options and servers of its own.
    if name in up.ACTS and name != "mcp":
        return up.main(arguments)
    if arguments == ["mcp"]:
        os.environ.setdefault("BEACON_PROCESS", "mcp")
    manage(["beacon", *arguments])
    return 0


def manage(words: list[str]) -> None:
    """Run a command of Django's or Beacon's, with the embedded servers where no URL is set."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "beacon_site.settings")
    try:
        with servers_for(words[1:]):
            execute_from_command_line(words)
    except EmbeddedError as exc:
        sys.exit(f"Beacon: {exc}")


if __name__ == "__main__":
    sys.exit(main())
