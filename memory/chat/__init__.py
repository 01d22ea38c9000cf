"""Ask: sessions, the answers that are worked out in them, and what an ended one leaves behind."""
