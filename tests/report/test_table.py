import math
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from isoloss.experiments.claims import Judgement
from isoloss.report.table import WIDTH, as_latex, claims_as_latex, in_numbers, interval_picture
from isoloss.results.estimate import Estimate
from isoloss.results.verdict import Region, above, below, within
from planned_suite import planned_suite
from shown_results import JUDGEMENTS


@pytest.mark.thorough
def test_every_claim_of_the_suite_can_be_said_in_latex_and_fits_the_page(tmp_path: Path) -> None:
    document = [r"\documentclass[twocolumn]{article}\usepackage{array,booktabs}\begin{document}"]
    for experiment in planned_suite("laptop"):
        for claim in experiment.claims:
            assert as_latex(f"{claim.sentence} {claim.paper} {claim.unit} {claim.claimed}").isascii()
        judged = [
            replace(JUDGEMENTS[number % 3], claim=claim) for number, claim in enumerate(experiment.claims)
        ]
        document.append(claims_as_latex(judged, experiment.name) + r"\clearpage")
    if shutil.which("pdflatex") is None:
        return
    (tmp_path / "all.tex").write_text("\n".join([*document, r"\end{document}"]))
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "all.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:]
    assert "Overfull" not in done.stdout


def test_an_interval_is_drawn_on_its_side_of_the_threshold() -> None:
    supported, contradicted, open_ended = JUDGEMENTS

    def places(judged: Judgement) -> list[float]:
        picture = str(interval_picture(judged))
        names = ('class="threshold" x1="', 'y2="18"/><line x1="', '" x2="', 'circle cx="')
        return [float(re.findall(f'{name}([0-9.]+)"', picture)[-1]) for name in names]

    threshold, low, high, effect = places(supported)
    assert 0 < threshold < low < effect < high < WIDTH
    threshold, low, high, effect = places(contradicted)
    assert 0 < low < effect < high < threshold < WIDTH
    assert interval_picture(open_ended) == ""


def test_the_claimed_side_is_shaded_and_no_other() -> None:
    above_half = JUDGEMENTS[0]

    def shaded(region: Region) -> tuple[float, float]:
        picture = str(interval_picture(replace(above_half, claim=replace(above_half.claim, claimed=region))))
        x, width = re.findall('class="claimed" x="([0-9.]+)" y="0" width="([0-9.]+)"', picture)[0]
        return float(x), float(x) + float(width)

    (_, end), (begin, last), (left, right) = shaded(below(0.5)), shaded(above(0.5)), shaded(within(0.5))
    assert shaded(below(0.5))[0] == 0
    assert end == pytest.approx(begin, abs=0.11)
    assert last == WIDTH
    assert 0 < left < right < WIDTH


def test_what_is_undefined_is_not_called_unmeasured() -> None:
    judged = replace(JUDGEMENTS[2], estimate=Estimate(math.nan, math.nan, 0))
    told = "Undefined: the runs lack what is compared, such as checkpoints of one loss, claimed above 0.5"
    assert in_numbers(judged).startswith(told)
    assert in_numbers(replace(judged, runs=0)).startswith("Not measured, claimed above 0.5")
