"""What a person does with a memory file; the rules for files are in `memory.files`."""
