"""When each experiment's claims were fixed, so that anyone can compare them with those judged."""

_FIRST = "443864760435bf2251e1dfb5e00d411cf83d1d99"

REGISTERED = {
    "figure-1": _FIRST,
    "figure-2": _FIRST,
    "figure-3": "02cf7414fde792a6a4017a1b9d4771cdf5ef9f1f",
    "figure-4": _FIRST,
    "figure-5": "02cf7414fde792a6a4017a1b9d4771cdf5ef9f1f",
    "figure-8": "02cf7414fde792a6a4017a1b9d4771cdf5ef9f1f",
    "figure-9": _FIRST,
    "figure-10": _FIRST,
    "table-1": "02cf7414fde792a6a4017a1b9d4771cdf5ef9f1f",
    "table-2": _FIRST,
    "drift": _FIRST,
    "adamw-clock": "7f9158ff015f95700c67d4b2bcc4b645f9fc7840",
    "flatness-interventions": "7f9158ff015f95700c67d4b2bcc4b645f9fc7840",
    "real-text-steps": _FIRST,
    "real-text-algorithms": "b498bd11b1dfc342db1e68a9863f45335559777e",
    "update-rules": _FIRST,
    "causal-objective": _FIRST,
    "longer-training": _FIRST,
    "flatness-measures": _FIRST,
    "projection": "6e0939cbec00d4abbc5976da5a47bb2bfecf347b",
    "ablations": "6e0939cbec00d4abbc5976da5a47bb2bfecf347b",
    "glue-of-causal-language": "bf18e408c1a05a59532e72ff65e53554ea5b2e20",
    "lazy-to-rich": "72089dd49eef8592396e8c4b754ac0977fa6e341",
    "other-distributions": "72089dd49eef8592396e8c4b754ac0977fa6e341",
    "roots-or-trace": "72089dd49eef8592396e8c4b754ac0977fa6e341",
    "dyck-transfer": "433c6e5f0da0b4d97a6e1990a2fe12d3575680d0",
}
"""The commit whose docs/claims.md says the experiment's claims as they are judged, by its name.

Each is older than the experiment's first run with a seed that the scales laptop or night report. To change
claims, or add an experiment's, before such a run: commit them, then name that commit here. After it: never.
"""
