"""Charts and the pages."""
