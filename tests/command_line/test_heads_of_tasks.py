"""Commands on models with the head of a task, beside the models' own losses and dense Fisher matrices."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from called import Capture, answer, json_of, output_of, refused
from models_with_heads import HEADS, ROWS, model_with_head, saved_model, table_of
from torch.nn.attention import SDPBackend, sdpa_kernel
from transformers import AutoTokenizer, PreTrainedModel

from isoloss.curvature.stopping import Stopping
from isoloss.curvature.weight_changes import Rounding, differences
from isoloss.measurements.compared_checkpoints import Models, read_checkpoints
from isoloss.measurements.comparison_plan import PlanSettings, planned_stages
from isoloss.measurements.comparison_sources import read_sources
from tiny_text_models import text_model, text_tokenizer

Read = dict[str, torch.Tensor]


NUMBERS = {"bad": 0, "good": 1, 0: 0, 1: 1}


def loaded(head: str, folder: Path) -> tuple[PreTrainedModel, list[Read]]:
    """The model in float64, and the arguments of its own loss for each row."""
    kind, _ = HEADS[head]
    tokenizer = AutoTokenizer.from_pretrained(folder)
    return kind.from_pretrained(folder).double().eval(), [of_row(head, tokenizer, row) for row in ROWS[head]]


def of_row(head: str, tokenizer: Any, row: dict[str, Any]) -> Read:
    named = {"token": ["tokens"], "pair": ["premise", "hypothesis"], "target": ["source"]}.get(head, ["text"])
    whole = [[row[name]] for name in named]
    read = dict(tokenizer(*whole, is_split_into_words=head == "token", return_tensors="pt"))
    match head:
        case "token":
            labels = [[-100, *(NUMBERS[tag] for tag in row["tags"])]]
        case "target":
            labels = tokenizer([row["target"]])["input_ids"]
        case "labels":
            own = [0.0, 1.0] if row["labels"] == [0, 1] else [0.0, 0.0]
            for name in row["labels"] if row["labels"] != [0, 1] else ():
                own[NUMBERS[name]] = 1.0
            labels = [own]
        case _:
            labels = [NUMBERS[row["label"]]]
    return read | {"labels": torch.tensor(labels)}


def distributions(head: str, model: PreTrainedModel, read: Read) -> torch.Tensor:
    """Log-probabilities of each prediction of a row, from the model's own output."""
    logits = model(**read).logits[0]
    if head == "labels":
        return torch.stack([-logits, logits], 1).sigmoid().log()
    logits = logits.view(-1, logits.shape[-1])
    return logits[read["labels"].flatten() != -100 if head == "token" else slice(None)].log_softmax(1)


@pytest.fixture(
    scope="module",
    params=[pytest.param(each, marks=pytest.mark.thorough) if each == "text" else each for each in HEADS],
)
def tuned(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path, Path]:
    head, folder = request.param, tmp_path_factory.mktemp("tuned")
    return head, model_with_head(head, folder / "model"), table_of(folder / "table.jsonl", ROWS[head])


Tuned = tuple[str, Path, Path]
NOT_OF_PAIRS = [head for head in HEADS if head != "pair"]
"""A pair is read as one text is, once its two are joined."""


def test_a_model_with_the_head_of_a_task_is_measured_with_its_own_loss(tuned: Tuned, capsys: Capture) -> None:
    head, folder, table = tuned
    asked = ("--text", table, "--json", "--dtype", "float64", "--quantity")
    told = json_of(answer(capsys, "flatness", folder, *asked, "fisher_trace", "pretraining_loss"))
    records = {each["quantity"]: each for each in told["records"]}
    assert records["fisher_trace"]["value"] > 0
    model, rows = loaded(head, folder)
    losses = [float(model(**read).loss.detach()) for read in rows]
    assert records["pretraining_loss"]["value"] == pytest.approx(sum(losses) / len(losses), rel=1e-6)


@pytest.mark.parametrize("head", ["text", pytest.param("target", marks=pytest.mark.thorough)])
def test_the_curvature_towards_another_checkpoint_is_of_the_same_head(
    head: str, tmp_path: Path, capsys: Capture
) -> None:
    folder, other = (model_with_head(head, tmp_path / f"seed-{seed}", seed=seed) for seed in (0, 1))
    table = table_of(tmp_path / "table.jsonl", ROWS[head])
    asked = ("flatness", folder, "--text", table, "--json", "--dtype", "float64", "--quantity")
    written = output_of(answer(capsys, *asked, f"directional_sharpness={other}"))
    (model, rows), (towards, _) = loaded(head, folder), loaded(head, other)
    weights = list(model.parameters())
    v = [theirs.detach() - ours.detach() for theirs, ours in zip(towards.parameters(), weights, strict=True)]
    with sdpa_kernel(SDPBackend.MATH):
        loss = sum(model(**read).loss for read in rows) / len(rows)
        gradients = torch.autograd.grad(loss, weights, create_graph=True)
        along = sum((g * each).sum() for g, each in zip(gradients, v, strict=True))
        twice = torch.autograd.grad(along, weights, materialize_grads=True)
    square = sum(float(each.square().sum()) for each in v)
    form = sum(float((g * each).sum()) for g, each in zip(twice, v, strict=True))
    assert json.loads(written)["records"][0]["value"] == pytest.approx(form / square, rel=1e-6)
    told = refused(capsys, *asked, f"relative_critical_sharpness={table}")
    assert "is not read for a model with the head of a task; leave" in told


@pytest.mark.thorough
@pytest.mark.usefixtures("_nothing_painted")
def test_layers_of_a_decoder_are_drawn_with_the_layers(tmp_path: Path, capsys: Capture) -> None:
    folder, table = model_with_head("target", tmp_path / "t5"), table_of(tmp_path / "t.jsonl", ROWS["target"])
    page = tmp_path / "page.html"
    output_of(answer(capsys, "flatness", folder, "--text", table, "--sentences", 2, "--output", page))
    assert '"category": "decoder layer 1", "colour": "cross-attention"' in page.read_text()


def fisher_form(head: str, model: PreTrainedModel, read: Read, change: dict[str, torch.Tensor]) -> float:
    """½ δᵀFδ of a row, from the gradient of every outcome of every prediction, in float64."""
    total, found = 0.0, distributions(head, model, read)
    named = dict(model.named_parameters())
    for of_prediction in found:
        for log_p in of_prediction:
            gradients = torch.autograd.grad(
                log_p, [named[name] for name in change], retain_graph=True, materialize_grads=True
            )
            along = sum(float((g * d).sum()) for g, d in zip(gradients, change.values(), strict=True))
            total += 0.5 * float(log_p.detach().exp()) * along**2
    return total / len(found)


@pytest.mark.parametrize(
    "tuned",
    [each if each == "token" else pytest.param(each, marks=pytest.mark.thorough) for each in NOT_OF_PAIRS],
    indirect=True,
)
def test_damage_to_a_model_with_the_head_of_a_task_is_that_of_its_dense_fisher_matrix(
    tuned: Tuned, capsys: Capture
) -> None:
    head, folder, table = tuned
    asked = ("--text", table, "--json", "--dtype", "float64", "--round", 8, "--check")
    found = {
        each["quantity"]: each["value"]
        for each in json_of(answer(capsys, "sensitivity", folder, *asked))["records"]
        if each["settings"]["part"] == "all"
    }
    model, rows = loaded(head, folder)
    change = differences(model, Rounding(8))
    expected = [fisher_form(head, model, read, change) for read in rows]
    # T5 has its softmax in float32, whatever the precision of its weights.
    assert found["kl_quadratic"] == pytest.approx(sum(expected) / len(expected), rel=1e-6)
    assert found["kl_measured"] == pytest.approx(found["kl_quadratic"], rel=0.2)


@pytest.mark.thorough
@pytest.mark.parametrize("tuned", ["text"], indirect=True)
def test_the_precision_of_a_sensitivity_is_chosen(tuned: Tuned, capsys: Capture) -> None:
    _, folder, table = tuned
    asked = ("sensitivity", folder, "--text", table, "--json", "--round", 4, "--dtype")
    values = {}
    for precision in ("float32", "float64", "bfloat16"):
        told = json_of(answer(capsys, *asked, precision))
        values[precision] = [each["value"] for each in told["records"]]
    assert values["float32"] == pytest.approx(values["float64"], rel=1e-3)
    assert values["bfloat16"] != values["float32"]
    by_default = json.loads(answer(capsys, *asked[:-1])[1])["records"]
    assert [each["value"] for each in by_default] == values["float32"]


@pytest.mark.usefixtures("_no_charts")
@pytest.mark.parametrize(
    "tuned", ["labels", pytest.param("target", marks=pytest.mark.thorough)], indirect=True
)
def test_models_with_the_head_of_a_task_are_compared_by_their_own_loss(
    tuned: Tuned, tmp_path: Path, capsys: Capture
) -> None:
    head, folder, table = tuned
    kind, _ = HEADS[head]
    other = kind.from_pretrained(folder)
    with torch.no_grad():
        other.get_input_embeddings().weight *= 1.5
    saved = model_with_head(head, tmp_path / "other", other)
    asked = ("--text", table, "--dtype", "float64", "--output", tmp_path / "c.html", "--json")
    written = output_of(answer(capsys, "compare", folder, saved, *asked))
    found = {(each["quantity"], each["checkpoint"]): each["value"] for each in json.loads(written)["records"]}
    for name in (folder, saved):
        model, rows = loaded(head, name)
        losses = [float(model(**read).loss.detach()) for read in rows]
        assert found["pretraining_loss", str(name)] == pytest.approx(sum(losses) / len(losses), rel=1e-6)
    alone = answer(capsys, "flatness", folder, saved, *asked[:-3], "--json", "--sentences", len(ROWS[head]))
    traces = [each for each in json.loads(alone[1])["records"] if each["quantity"] == "fisher_trace"]
    for each in traces:
        assert found["fisher_trace", each["checkpoint"]] == pytest.approx(each["value"], rel=1e-9)


def test_a_head_of_a_task_is_not_given_another(tmp_path: Path, capsys: Capture) -> None:
    folder, table = model_with_head("text", tmp_path / "a"), table_of(tmp_path / "t.jsonl", ROWS["text"])
    words = model_with_head("token", tmp_path / "b")
    output = ("--output", tmp_path / "c.html")
    error = refused(capsys, "compare", folder, words, "--task", table, *output)
    assert "has the head of a task (text classes), and --task trains one" in error
    masked = saved_model(text_model(), tmp_path / "masked", text_tokenizer())
    error = refused(capsys, "compare", masked, words, "--task", table, *output)
    assert f"{words} has the head of a task (token classes), and --task trains one" in error
    error = refused(capsys, "compare", folder, words, "--text", table, *output)
    assert "models with different heads of tasks are not compared" in error


def test_a_lacking_language_head_is_told_before_what_the_table_lacks(tmp_path: Path, capsys: Capture) -> None:
    folder, table = model_with_head("token", tmp_path / "a"), table_of(tmp_path / "t.jsonl", ROWS["token"])
    error = refused(capsys, "flatness", folder, "--text", table, "--objective", "masked")
    assert f"{folder} has no trained language head" in error


@pytest.mark.parametrize(
    ("head", "rows", "says"),
    [
        ("text", [{"text": "a"}, {"text": "b"}], "has no column 'label'"),
        ("pair", [{"premise": "a", "hypothesis": "", "label": 0}], "row 1: premise or hypothesis is missing"),
        ("labels", [{"text": "a", "labels": "good"}], "row 1: the labels are no list"),
        ("labels", [{"text": "a", "labels": ["odd"]}], "no class 'odd', but 0, 1, bad"),
        ("text", [{"text": "a", "label": "odd"}, {"text": "b", "label": 0}], "no class 'odd', but 0, 1, bad"),
        (
            "text",
            [{"text": "a", "label": None}, {"text": "b", "label": 0}],
            "row 1: the label is missing; the",
        ),
        ("text", [{"text": "a", "labels": [0, 1]}], "set problem_type to multi_label_classification in its"),
        ("token", [{"tokens": ["a"], "labels": []}], "must be lists of one length"),
        ("target", [{"text": "a"}], "has no columns 'source' and 'target'"),
        (
            "target",
            [{"source": "a", "target": "b"}, {"source": "a", "target": None}],
            "row 2: target is missing",
        ),
        ("target", [{"source": " ", "target": "b"}], "row 1: source is missing; give both, or drop the row"),
        (
            "text",
            [{"text": "a", "label": 0}, {"text": " ", "label": 0}],
            "row 2: the text is missing; give one",
        ),
        (
            "labels",
            [{"text": None, "labels": []}, {"text": "a", "labels": [0]}],
            "row 1: the text is missing",
        ),
    ],
)
def test_a_table_that_does_not_fit_the_head_is_refused(
    head: str, rows: list[dict[str, object]], says: str, tmp_path: Path, capsys: Capture
) -> None:
    folder = model_with_head(head, tmp_path / "model")
    assert says in refused(capsys, "flatness", folder, "--text", table_of(tmp_path / "table.jsonl", rows))


@pytest.mark.parametrize("head", sorted(HEADS))
def test_what_is_no_table_is_refused(head: str, tmp_path: Path, capsys: Capture) -> None:
    folder = model_with_head(head, tmp_path / "model")
    assert "is no table" in refused(capsys, "flatness", folder, "--text", __file__)


def test_a_decoder_of_which_nothing_says_where_it_begins_is_refused(tmp_path: Path, capsys: Capture) -> None:
    folder = model_with_head("target", tmp_path / "model")
    config = json.loads((folder / "config.json").read_text())
    del config["decoder_start_token_id"]
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "generation_config.json").unlink(missing_ok=True)
    table = table_of(tmp_path / "table.jsonl", ROWS["target"])
    error = refused(capsys, "flatness", folder, "--text", table)
    assert f"{folder} does not say what its decoder reads first; add decoder_start_token_id to its" in error


def test_labels_are_part_of_what_is_compared_on(tmp_path: Path) -> None:
    """A text of which a label is changed is another one, of which nothing was measured."""
    folder, other = (model_with_head("text", tmp_path / name, seed=n) for n, name in enumerate("ab"))
    keys = []
    models = Models(torch.device("cpu"), torch.float32)
    settings = PlanSettings(0, None, Stopping(None, 8), Stopping(None, 8), ("fisher_trace",), 128, False)
    for label in ("bad", "good"):
        table = table_of(tmp_path / "t.jsonl", [*ROWS["text"], {"text": "a b c", "label": label}])
        sources = read_sources([str(folder)], None, table, None, None, None, (), None)
        assert sources.texts == ["a b c", "d e", "a", "a b c"]
        checkpoints = read_checkpoints([str(folder), str(other)], models, sources.texts)
        ((_, loss), _), _ = planned_stages(settings, checkpoints, sources, models)
        keys.append(loss.key["text"])
    assert keys[0] != keys[1]


@pytest.mark.parametrize(
    "tuned",
    [pytest.param(each, marks=pytest.mark.thorough) if each == "text" else each for each in NOT_OF_PAIRS],
    indirect=True,
)
def test_what_a_model_with_the_head_of_a_task_takes_is_tried(tuned: Tuned, capsys: Capture) -> None:
    head, folder, table = tuned
    (found,) = json_of(answer(capsys, "inspect", folder, "--json"))["models"]
    predicted = {"token": "token classes", "target": "target text", "labels": "text labels"}
    assert found["predicts"] == predicted.get(head, "text classes")
    assert found["trial"]["bytes_a_sentence"] > 0
    rows = table_of(table.with_name("many.jsonl"), ROWS[head] * 40)
    written = output_of(answer(capsys, "inspect", folder, "--text", rows))
    assert "by the spread over the first 64 of the text" in written
