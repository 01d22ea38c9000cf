"""The tools that agents call, their one registry, and the loop in which a model calls them."""
