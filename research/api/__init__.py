"""REST of what is found out: topics, runs, reports."""
