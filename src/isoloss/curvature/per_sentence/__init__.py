"""The exact norms of every sentence's gradient, from one backward pass over a batch."""
