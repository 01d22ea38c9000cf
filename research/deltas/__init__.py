"""What changed: findings held against what is known, stored, merged, and shown."""
