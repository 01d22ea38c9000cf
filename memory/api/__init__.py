"""REST for programs (`/api/v1/`): memory's resources, and the frame that research's share."""
