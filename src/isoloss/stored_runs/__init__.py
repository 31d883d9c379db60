"""Folders of results: listing, filtering, comparing and packing the runs in them."""
