"""What pages state and how it changed: blocks of a page, records, typed values, page diffs."""
