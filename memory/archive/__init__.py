"""Everything of an owner as one file, and back: export, import, and import from elsewhere."""
