"""The smoke scale for tests that carry out experiments to check that all is measured and drawn."""

from dataclasses import replace

from isoloss.experiments.scale import Scale, scale_named
from isoloss.measurements.linear_probe import ProbeSettings


def tiny_scale(seeds: tuple[int, ...] = (1,)) -> Scale:
    """Smoke's runs with these seeds, measured on a few sentences, by two probes of one epoch."""
    scale = scale_named("smoke")
    probe = ProbeSettings(seeds=(0, 1), epochs=1)
    sizes = replace(scale.sizes, loss_sentences=8, trace_sentences=8, probe=probe)
    return replace(scale, seeds=seeds, sizes=sizes)
