"""The shapes of the paper and the models that have them."""
