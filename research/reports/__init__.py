"""Reports: listed, read, compared, exported, shared."""
