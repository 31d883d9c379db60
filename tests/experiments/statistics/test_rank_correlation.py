import numpy as np
import polars as pl
import pytest
from scipy import stats

from isoloss.experiments.suite.flatness_measures import rank_correlation_table
