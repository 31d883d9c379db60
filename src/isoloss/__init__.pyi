"""Types of the names that `isoloss` imports on first access."""

from isoloss import lab as lab
from isoloss.curvature.fisher_trace import fisher_trace as fisher_trace
from isoloss.curvature.hessian_trace import hessian_trace as hessian_trace
from isoloss.experiments.languages import decided_grammar as decided_grammar
from isoloss.experiments.languages import headline_grammar as headline_grammar
from isoloss.languages.pcfg import pcfg as pcfg
from isoloss.languages.pcfg import read_pcfg as read_pcfg
from isoloss.languages.random_grammar import random_layered_grammar as random_layered_grammar
from isoloss.languages.random_hmm import random_hmm as random_hmm
from isoloss.models.loading import load_masked_language_model as load_masked_language_model
from isoloss.models.transformers import PreLayerNormTransformer as PreLayerNormTransformer
from isoloss.models.transformers import Shape as Shape
from isoloss.objectives.masked import MaskedObjective as MaskedObjective
from isoloss.objectives.next_word import NextWordObjective as NextWordObjective
from isoloss.pretraining.descent import AdamW as AdamW
from isoloss.pretraining.loop import pretrain as pretrain
from isoloss.pretraining.specification import PretrainingSpecification as PretrainingSpecification
from isoloss.results.record import Record as Record
from isoloss.stored_runs.stored_run import find_run as find_run
from isoloss.stored_runs.stored_run import runs_in as runs_in

__version__: str
