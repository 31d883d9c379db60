"""Two files that BIG-bench's source distribution carries, of which tasks of pairs are made."""

import json
from pathlib import Path
from typing import Any, Literal

from isoloss.corpora.fetched_package import FetchedPackage
from isoloss.progress import Progress

FileName = Literal["squaddev_v1.1.json", "task.json"]
QUESTIONS: FileName = "squaddev_v1.1.json"
"""SQuAD 1.1's development part (Rajpurkar et al. 2016): 10,570 questions about 48 articles. CC BY-SA 4.0."""

CLAIMS: FileName = "task.json"
"""VitaminC's test part (Schuster et al. 2021): 54,668 claims, each with a passage. MIT; passages CC BY-SA
3.0."""

BIG_BENCH = FetchedPackage(
    package="bigbench==1.0.0",
    members=(f"*/squad_shifts/{QUESTIONS}", f"*/vitaminc_fact_verification/{CLAIMS}"),
    what="questions and claims",
    digest="a913894e33e1b91a91dd140f8e2aaac4ecfcbfd6d705412e5110baddb25104bc",
    megabytes=358,
    source=True,
)
"""Apache-2.0. Benchmark data, whose authors ask that no language model be trained on them."""

FOLDER = "questions-and-claims"


def is_at_hand(cache: Path) -> bool:
    """Whether both files are in `cache`."""
    return BIG_BENCH.is_at_hand(cache / FOLDER)


def big_bench_file(name: FileName, cache: Path, progress: Progress) -> Any:
    """One of the two files; both are fetched where they are not there. Raises as `FetchedPackage.files`."""
    paths = {path.name: path for path in BIG_BENCH.files(cache / FOLDER, progress)}
    return json.loads(paths[name].read_bytes())
