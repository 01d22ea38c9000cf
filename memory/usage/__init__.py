"""What model calls cost: reserved, booked, counted, and shown."""
