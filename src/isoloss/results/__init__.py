"""A measured number with its error, interval and verdict, and the files that hold results."""
