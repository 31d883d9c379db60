"""Why language models with the same pre-training loss differ downstream.

Languages whose exact law is known, fresh sentences, models pre-trained to the same loss, measurements
with error bars, claims with verdicts: the packages of this library, in that order.
"""

__version__ = "0.1.0"
