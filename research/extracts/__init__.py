"""What a page says that is worth reporting, chosen by rules alone: the engine that needs no model."""
