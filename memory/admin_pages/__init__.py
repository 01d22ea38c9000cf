"""Memory's models in the admin, which `memory.admin` brings together."""
