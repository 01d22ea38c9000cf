"""The doors to models and other services: which are set up, asked, tried, and whether they work."""
