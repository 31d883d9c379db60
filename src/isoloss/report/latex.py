"""Claims with their verdicts as a LaTeX table, for papers; it needs the packages array and booktabs."""

import math
import re
import unicodedata
from collections.abc import Sequence

from isoloss.experiments.claims import Judgement
from isoloss.results.record import ABSENT

_PLAIN = {
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    **{letter: f"\\{letter}" for letter in "&%$#_{}"},
    "<": "$<$", ">": "$>$", "|": "$|$",
    "“": "``", "”": "''", "’": "'", "‘": "`", "–": "--", "—": "---",
    "…": r"\dots{}", "\N{NO-BREAK SPACE}": "~",
}  # fmt: skip
_MATHEMATICS = {
    "α": r"\alpha", "β": r"\beta", "Γ": r"\Gamma", "Δ": r"\Delta", "ε": r"\varepsilon", "η": r"\eta",
    "θ": r"\theta", "λ": r"\lambda", "ρ": r"\rho", "Σ": r"\Sigma", "σ": r"\sigma", "τ": r"\tau",
    "∇": r"\nabla", "‖": r"\|", "√": r"\surd", "−": "-", "±": r"\pm", "×": r"\times", "·": r"\cdot",
    "≤": r"\le", "≥": r"\ge", "∞": r"\infty", "→": r"\to", "²": "^2", "³": "^3",
}  # fmt: skip
_MINUS = re.compile(r"(?<![\w)])-(?=[\d(])")
_MACRON = "\N{COMBINING MACRON}"
_SHARES = (0.29, 0.20, 0.16, 0.12, 0.13)
"""The share of the text's width of each column; the remainder is the space between them."""

_COLUMNS = "".join(rf">{{\raggedright\arraybackslash}}p{{{share:.2f}\textwidth}}" for share in _SHARES)


def claims_as_latex(judgements: Sequence[Judgement], name: str) -> str:
    """A table that spans both columns, effects before premises; its label is `tab:NAME-claims`."""
    effects, premises = (
        [judged for judged in judgements if judged.claim.kind == kind] for kind in ("effect", "premise")
    )
    parts = [_rows(part) for part in (effects, premises) if part]
    caption = (
        f"Claims of {name}, each with its interval over seeds: effects first, judged jointly by Holm's "
        "procedure at 95 %; then premises, each judged on its own."
    )
    return "\n".join(
        [
            r"% \usepackage{array,booktabs}",
            r"\begin{table*}",
            r"  \centering\small\setlength{\tabcolsep}{4pt}",
            f"  \\caption{{{as_latex(caption)}}}",
            f"  \\label{{tab:{name}-claims}}",
            f"  \\begin{{tabular}}{{@{{}}{_COLUMNS}@{{}}}}",
            r"    \toprule",
            r"    Claim & The paper & Measured & Claimed & Verdict \\",
            r"    \midrule",
            "\n    \\midrule\n".join(parts),
            r"    \bottomrule",
            r"  \end{tabular}",
            r"\end{table*}",
            "",
        ]
    )


def as_latex(text: str) -> str:
    r"""Text for LaTeX's text mode, in pure ASCII if every letter is known.

    A hyphen before a number becomes a minus, and no line breaks before a percent sign.

    >>> as_latex("0.12 % along τ = η²k̄ / 4B, -0.5 of ∇_Γ")
    '0.12~\\% along $\\tau$ = $\\eta^2\\bar{k}$ / 4B, $-$0.5 of $\\nabla_\\Gamma$'
    """
    written: list[str] = []
    text = _MINUS.sub("−", text).replace(" %", "\N{NO-BREAK SPACE}%")
    for letter in unicodedata.normalize("NFC", text):
        if letter == _MACRON:
            written[-1] = f"$\\bar{{{written[-1]}}}$"
        elif letter in _MATHEMATICS:
            written.append(f"${_MATHEMATICS[letter]}$")
        else:
            written.append(_PLAIN.get(letter, letter))
    formulae = re.sub(r"\$\\_\$", "_", "".join(written))
    return re.sub(r"(?<!\\)\$\$", "", formulae)  # adjacent formulae are joined


def _rows(judgements: Sequence[Judgement]) -> str:
    return "\n".join(f"    {' & '.join(map(as_latex, _cells(judged)))} \\\\" for judged in judgements)


def _cells(judged: Judgement) -> tuple[str, ...]:
    claim = judged.claim
    interval = f" ({judged.low:.3g} to {judged.high:.3g})" if math.isfinite(judged.low + judged.high) else ""
    measured = f"{judged.effect:.3g}{interval} {claim.unit}" if math.isfinite(judged.effect) else ABSENT
    return claim.sentence, claim.paper, measured.strip(), str(claim.claimed), str(judged.verdict)
