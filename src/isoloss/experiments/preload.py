"""What every run imports, loaded once before processes are forked from it."""

import signal

# Ctrl-C reaches the whole process group: only the parent answers it, also while this is being imported.
signal.signal(signal.SIGINT, signal.SIG_IGN)

import torch  # noqa: E402, F401
import transformers.models.bert.modeling_bert  # noqa: E402
import transformers.models.roberta_prelayernorm.modeling_roberta_prelayernorm  # noqa: E402, F401
