"""Real text: what a model of one's own is measured on."""
