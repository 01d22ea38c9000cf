"""From texts to a report: findings chosen, written, laid out, quoted."""
