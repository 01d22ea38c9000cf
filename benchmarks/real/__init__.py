"""Reports measured on real, dated documents from public git histories (see README.md)."""
