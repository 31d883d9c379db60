"""What figures draw against what: the columns of their tables with titles, units and error bars."""

from isoloss.panels import Axis, Colour

LOSS = Axis("loss", "exact pre-training loss (nats)", "kl_error")
KL = Axis("kl", "KL(law || model) (nats)", "kl_error")
ACCURACY = Axis("accuracy", "linear probe accuracy", "accuracy_deviation")
TRACE = Axis("trace", "trace of the Hessian (Fisher form)", "trace_error")
STEP = Axis("step", "pre-training step", logarithmic=True)
BY_WIDTH = Colour("width", "width", ordered=True)
LOG_KL = Axis("kl", "KL(law || model) (nats)", "kl_error", logarithmic=True)
DESCENT_STEP = Axis("step", "step of SGD")
SIZE = Axis("width", "width", logarithmic=True)
BY_SEED = Colour("seed", "seed")
