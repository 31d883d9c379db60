"""Folders of results: the runs in them listed, filtered, compared and packed."""
