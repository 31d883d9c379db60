"""The imports of every run, loaded once before processes are forked."""

import torch  # noqa: F401
import transformers.models.bert.modeling_bert
import transformers.models.roberta_prelayernorm.modeling_roberta_prelayernorm  # noqa: F401
