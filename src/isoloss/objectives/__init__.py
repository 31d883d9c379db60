"""What a model is asked to predict."""
