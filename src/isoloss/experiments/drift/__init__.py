"""Theorem 3.3's clock: the trace of the Hessian along plain SGD, at several learning rates and batches."""
