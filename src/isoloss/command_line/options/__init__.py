"""What each command takes: its options and its help, with nothing that takes long to import."""
