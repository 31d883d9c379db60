"""The paper's settings beside a scale's own, one setting per line, with the reasons for differences."""
