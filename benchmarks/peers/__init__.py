"""Other programs on the same loopback services: benchmarks/peers/side_by_side.py."""
