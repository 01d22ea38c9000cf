"""What may have drifted apart although it belongs together: found, explained, and mended."""
