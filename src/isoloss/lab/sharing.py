"""Models of the laboratory as folders that `from_pretrained` reads, with a card; to a hub."""

import tempfile
from collections.abc import Sequence
from pathlib import Path

from huggingface_hub import HfApi, ModelCard, ModelCardData
from huggingface_hub.errors import HfHubHTTPError, HFValidationError

import isoloss
from isoloss.errors import BadInput, IsolossError, first_line
from isoloss.files import writable
from isoloss.lab.measured import Measured
from isoloss.lab.models import CARD_FILE, Model, Run
from isoloss.lab.network import TorchModel
from isoloss.lab.words import folder_from
from isoloss.languages.language import Language, WritesItself, kind_of
from isoloss.models.model_files import quiet


def save(model: Model, folder: Path | str, *, measured: Sequence[Measured] = ()) -> Path:
    """Write a model, its tokenizer, its language and a card into a new or empty folder.

    The card holds the language, the seeds, and the numbers in `measured` of these weights: of a loss also its
    KL, each with its standard error, its number of sentences and its seed. Raises BadInput for a torch
    module, which no folder can hold, for a folder with something in it, and where nothing measured is of this
    model.
    """
    place = folder_from(folder)
    _refuse_what_no_card_can_tell(model, measured)
    if isinstance(model.module, TorchModel):
        raise BadInput(
            f"{model.label} is a torch module, whose code no folder holds; save a Hugging Face model"
        )
    if place.exists() and (not place.is_dir() or any(place.iterdir())):
        raise BadInput(f"{place} is there already; name a new folder, or an empty one")
    card = model_card(model, measured)
    with writable(place.parent), quiet():
        place.mkdir(parents=True, exist_ok=True)
        model.module.save_pretrained(place)
        if model.tokenizer is not None:
            model.tokenizer.save_pretrained(place)
        if isinstance(model.language, WritesItself):
            written = model.language.file()
            (place / written.name).write_text(written.text, "utf-8")
        (place / CARD_FILE).write_text(card, "utf-8")
    return place


def _refuse_what_no_card_can_tell(model: object, measured: object) -> None:
    if not isinstance(model, Model):
        called = f"the run {model.name}" if isinstance(model, Run) else f"{model!r:.60}"
        raise BadInput(
            f"{called} is no model of the laboratory; give one, such as run.last or lab.model(...)"
        )
    if not isinstance(measured, Sequence) or not all(isinstance(each, Measured) for each in measured):
        raise BadInput(
            "what was measured is a list of what lab.loss, lab.trace or lab.probe returned; give "
            "measured=[loss] of the one"
        )


def push(
    model: Model,
    repository: str,
    *,
    measured: Sequence[Measured] = (),
    private: bool = False,
    token: str | None = None,
) -> str:
    """Put what `save` writes on the hub as `repository`, "somebody/a-name"; returns its address.

    The hub is that of the environment's HF_ENDPOINT, and the token, unless one is given, the one that
    `hf auth login` stored. Raises BadInput as `save` does, and IsolossError if the hub refuses.
    """
    hub = HfApi(token=token)
    with tempfile.TemporaryDirectory(prefix="isoloss-lab-") as temporary:
        folder = save(model, Path(temporary) / "model", measured=measured)
        try:
            address = hub.create_repo(repository, private=private, exist_ok=True)
            hub.upload_folder(
                repo_id=repository, folder_path=folder, commit_message=f"Upload {model.label}, by isoloss"
            )
        except HFValidationError as error:
            raise BadInput(
                f"{repository!r} is no name of a repository; name it as in somebody/a-name"
            ) from error
        except (HfHubHTTPError, OSError, ValueError) as error:
            reason = first_line(error)
            raise IsolossError(
                f"the hub at {hub.endpoint} did not take {repository}: {reason}; check the token "
                "(hf auth login) and the network"
            ) from error
    return str(address)


def model_card(model: Model, measured: Sequence[Measured]) -> str:
    """The card: what the model is, what it was trained on, and its numbers."""
    digest = model.digest
    rows = list(dict.fromkeys(line for each in measured for line in _lines_of(digest, each)))
    if measured and not rows:
        raise BadInput(f"nothing of what was measured is of {model.label}; measure it, and hand that over")
    data = ModelCardData(library_name="transformers", tags=["isoloss"], model_name=model.name)
    made = f"isoloss {isoloss.__version__}"
    seeds = ", then ".join(map(str, model.seeds))
    history = f"trained with {made} (seeds of its runs: {seeds})" if seeds else f"shared with {made}"
    parts = [
        f"# {model.label}",
        f"A {type(model.module).__name__} of {model.weights:,} weights, {history}.",
        "## Language",
        "Unknown." if model.language is None else _about(model.language),
    ]
    if rows:
        heads = "| quantity | value ± standard error | unit | sentences | seed |"
        parts += ["## Measured", "\n".join([heads, "|---|---|---|---|---|", *rows])]
    if isinstance(model.language, WritesItself):
        parts.append(f"The language itself is in `{model.language.file().name}`.")
    return str(ModelCard(f"---\n{data.to_yaml()}\n---\n\n" + "\n\n".join(parts) + "\n"))


def _about(language: Language) -> str:
    return (
        f"A {kind_of(language)} of {len(language.vocabulary):,} words, with sentences of at most "
        f"{language.maximum_length} words; its digest is `{language.digest}`."
    )


def _lines_of(digest: str, measured: Measured) -> list[str]:
    lines = []
    for quantity in (measured, measured.kl):
        for row in quantity.rows if quantity else ():
            if quantity and row.digest == digest:
                number = str(row.estimate)
                cells = (quantity.quantity, number, quantity.unit, f"{row.estimate.n:,}", str(quantity.seed))
                lines.append(f"| {' | '.join(cells)} |")
    return lines
