"""Looking back on finished work: what of it is kept in the memory files."""
