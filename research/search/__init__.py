"""From queries to texts: services asked, hits put together, pages read."""
