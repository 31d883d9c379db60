"""Axes and colours of figures over sizes and along SGD, beside those of Figure 1."""

from isoloss.panels import Axis, Colour

LOG_KL = Axis("kl", "KL(law || model) (nats)", "kl_error", logarithmic=True)
DESCENT_STEP = Axis("step", "step of SGD")
SIZE = Axis("width", "width", logarithmic=True)
BY_SEED = Colour("seed", "seed")
