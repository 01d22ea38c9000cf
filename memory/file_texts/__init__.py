"""What the text of a memory file says: its path, headings, sections, entries and summary line."""
