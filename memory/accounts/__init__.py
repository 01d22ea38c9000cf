"""Who is at the door: people, programs, their sign-ins, tokens and settings."""
