"""The `beacon` command of an installed Beacon: manage.py with `up` and `down`."""

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

  beacon up                    start Beacon and print its address (Ctrl-C stops it)
  beacon down                  stop Beacon from another terminal
  beacon first_account_link    create a one-time link for the first account
  beacon research TOPIC        run a topic (--sample: the sample topic, --wait: wait until it's done)
  beacon backup FILE           save all data to one file, even while Beacon is running
  beacon restore FILE          replace all data with a backup
  beacon verify [--fix]        check that the stored data is consistent, and fix it
  beacon mcp --stdio           run the MCP server for an app on this machine
  beacon help [COMMAND]        list all commands, or explain one
  beacon --version

For a service manager, each in the foreground: beacon prepare|web|worker|upkeep|beat|mcp

Data folder: {folder}
(Set BEACON_DATA_DIR to change it. Settings can go in its beacon.env file.)"""


def main() -> int:
    arguments = sys.argv[1:]
    name = arguments[0] if arguments else "--help"
    if name in {"-h", "--help"}:
        print(HELP.format(version=beacon_site.__version__, folder=data_dir()))
        return 0
    if name in {"-V", "--version", "version"}:
        print(f"Beacon {beacon_site.__version__}")
        return 0
    # `mcp` is also a management command, with its own options and servers.
    if name in up.ACTS and name != "mcp":
        return up.main(arguments)
    if arguments == ["mcp"]:
        os.environ.setdefault("BEACON_PROCESS", "mcp")
    manage(["beacon", *arguments])
    return 0


def manage(words: list[str]) -> None:
    """Run a management command, with the embedded servers if no URL is set."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "beacon_site.settings")
    try:
        with servers_for(words[1:]):
            execute_from_command_line(words)
    except EmbeddedError as exc:
        sys.exit(f"Beacon: {exc}")


if __name__ == "__main__":
    sys.exit(main())
