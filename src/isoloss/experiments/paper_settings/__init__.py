"""The paper's settings beside a scale's own, a line a setting, and why they differ where they do."""
