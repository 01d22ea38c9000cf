"""Telling people elsewhere: channels, digests, feeds, and what is sent."""
