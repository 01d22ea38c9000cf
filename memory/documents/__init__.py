"""The library: documents added by hand or taken from the watched folder."""
