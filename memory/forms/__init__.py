"""The forms of memory's pages, one module per family of pages."""
