"""The paper's shapes, and models with these shapes."""
