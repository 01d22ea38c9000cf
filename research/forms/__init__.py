"""Forms of research's pages."""
