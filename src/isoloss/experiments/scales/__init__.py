"""The scales that experiments are carried out at, a page each."""
