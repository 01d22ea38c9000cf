"""What research has the doctor look at, and how it is mended."""
