"""What enters a prompt: an agent's layers, and what a run is told of its topic."""
