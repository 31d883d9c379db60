"""The options and help of each command, free of imports that take long."""
