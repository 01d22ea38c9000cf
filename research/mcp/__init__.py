"""The MCP server: programs call the tools of the one registry, and read files and reports.

Data flow: a message over standard input or HTTP -> `server` (the official package's handlers) ->
in a thread of its own `calls` or `resources`, on behalf of the token's agent (`callers`) -> the
same `call_tool` that models use.  `web` keeps the door of the HTTP server.
"""
