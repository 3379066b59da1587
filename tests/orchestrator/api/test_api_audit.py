"""``fedpriv.audit``: what it finds, what it leaves as it was, and what it refuses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import fedpriv
from attacks.metrics import membership

MEMBERS = 120


class Told(torch.nn.Module):
    """The true class is the first number of an example, and members have a larger second one."""

    def __init__(self, outputs: int = 3) -> None:
        super().__init__()
        self.outputs, self.weight = outputs, torch.nn.Parameter(torch.ones(1))
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.training:
            self.calls += 1
        label = torch.nn.functional.one_hot(x[:, 0].long(), self.outputs)
        return label * x[:, 1:2] * self.weight


def examples(seed: int, shift: float) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, MEMBERS)
    return np.stack([y, rng.normal(size=MEMBERS) + shift], axis=1).astype(np.float32), y


INSIDE, OUTSIDE = examples(0, 1.5), examples(1, 0.0)


@pytest.fixture(scope="module")
def audit() -> fedpriv.Audit:
    return fedpriv.audit(Told(), INSIDE, OUTSIDE, [Told(), Told()])


def test_the_auc_is_that_of_the_scores_which_the_model_gives(audit: fedpriv.Audit) -> None:
    x = np.concatenate([INSIDE[0], OUTSIDE[0]])
    value = membership.auc(x[:, 1].astype(float), np.arange(2 * MEMBERS) < MEMBERS)
    found = audit.measures.query("attack == 'loss' and metric == 'auc'").iloc[0]
    assert found.value == pytest.approx(value)
    assert found.low < value < found.high and found.chance == 0.5


def test_the_table_has_every_attack_and_last_what_guessing_gives(audit: fedpriv.Audit) -> None:
    attacks = [
        "loss",
        "confidence",
        "entropy",
        "gap",
        "gradient_norm",
        "lira_offline",
        "rmia_offline",
        "base_offline",
    ]
    assert list(audit.table.index) == [*attacks, "by chance"]
    assert audit.table.loc["by chance", "AUC"] == "0.500"
    assert audit.table.loc["loss", "AUC"].count("0.") == 3  # the value and both ends
    assert (audit.table["TPR at 0.1 % FPR"] == "").all()
    assert "0.1 % FPR takes 1000 non-members" in audit.notes[-1]
    assert (
        audit.table.loc["gap", "TPR at 1 % FPR"] == "" and "highest score of gap" in audit.notes[-1]
    )
    epsilon = audit.measures.query("attack == 'loss' and metric == 'epsilon_record'").iloc[0]
    assert epsilon.value > epsilon.low > 0 and epsilon.value > epsilon.chance


def test_a_notebook_shows_the_table_and_the_curves(audit: fedpriv.Audit) -> None:
    assert "by chance" in audit._repr_html_() and "<td>" in audit._repr_html_()
    assert "120 members, 120 non-members" in repr(audit)
    figure: Any = audit.figure("roc")
    labels = [text.get_text() for text in figure.axes[0].get_legend().get_texts()]
    assert labels[0].startswith("loss, AUC 0.8") and labels[-1] == "guessing"
    assert figure._repr_png_().startswith(b"\x89PNG")
    assert len(audit.scores) == 2 * MEMBERS and audit.scores.member.sum() == MEMBERS
    with pytest.raises(fedpriv.ConfigError, match="Did you mean 'roc'"):
        audit.figure("rock")


def test_tensors_and_lists_give_the_same_as_arrays_and_again_the_same(audit: fedpriv.Audit) -> None:
    inside = torch.tensor(INSIDE[0]), torch.tensor(INSIDE[1])
    outside = OUTSIDE[0].astype(float).tolist(), OUTSIDE[1].tolist()
    again = fedpriv.audit(Told(), inside, outside, [Told(), Told()])
    assert again.measures.equals(audit.measures)


def test_the_module_is_left_as_it_was() -> None:
    module = torch.nn.Sequential(Told(), torch.nn.Dropout())
    module[1].eval()
    fedpriv.audit(module, INSIDE, OUTSIDE)
    assert module.training and module[0].training and not module[1].training
    assert module[0].weight.grad is None and module[0].calls.item() == 0


def test_without_references_or_gradients_these_attacks_are_left_out() -> None:
    result = fedpriv.audit(Told(), INSIDE, OUTSIDE, gradients=False)
    assert list(result.table.index) == ["loss", "confidence", "entropy", "gap", "by chance"]


class Two(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> Any:
        return x, x


def spoiled(place: int, value: float) -> tuple[np.ndarray, np.ndarray]:
    x = INSIDE[0].copy()
    x[place] = value
    return x, INSIDE[1]


def mute() -> Told:
    module = Told()
    module.weight.data.fill_(float("nan"))
    return module


X, Y, OWN = *INSIDE, Told()
MIXING = torch.nn.Sequential(
    torch.nn.BatchNorm1d(2, track_running_stats=False), torch.nn.Linear(2, 3)
)
FINE = X.astype(float) * (1 + 1e-12), Y  # other numbers with 64 bits, the same ones with 32
REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"module": 3}, "module: must be a torch.nn.Module, got 3"),
    ({"references": Told()}, "references: must be a list of torch modules, got Told"),
    ({"references": [Told(), "x"]}, "references[1]: must be a torch.nn.Module, got 'x'"),
    ({"module": OWN, "references": [OWN]}, "references[0]: is the attacked module itself"),
    (
        {"references": [MIXING]},
        "references[0]: gives an example another output in another batch: 0 takes statistics",
    ),
    ({"members": X}, "members: must be a pair (x, y) of examples [n, ...] and labels [n]"),
    ({"nonmembers": (X[:9], Y[:9])}, "nonmembers: has 9 examples; 10 or more are needed"),
    ({"members": (X, Y[:-1])}, "members: x has the shape [120, 2], but y [119]"),
    ({"members": spoiled(7, np.nan)}, "members: x has NaN or infinity"),
    ({"members": (X, Y * 0.5)}, "members: y must be an array of whole numbers [n], the classes"),
    ({"members": (X, Y - 1)}, "members: y has negative labels"),
    (
        {"members": ([[1], [1, 2]], [0, 1])},
        "members: x must be an array of numbers [n, ...], got object",
    ),
    (
        {"nonmembers": (X[:, :1], Y)},
        "nonmembers: examples have the shape [1], those of members [2]",
    ),
    (
        {"nonmembers": INSIDE},
        "nonmembers: examples of both sides: 120 (nonmembers[0] = members[0],",
    ),
    ({"members": FINE, "nonmembers": INSIDE}, "nonmembers: examples of both sides: 120"),
    ({"module": Told().bfloat16(), "nonmembers": (X * (1 + 1e-5), Y)}, "examples of both sides"),
    ({"members": (X, Y + 5)}, "gives 3 outputs, one for each class from 0, but a label is 7"),
    ({"module": Two()}, "module: returns a tuple in evaluation; it must return the logits alone"),
    ({"module": torch.nn.Linear(2, 1)}, "module: returns torch.float32 [240, 1] in evaluation"),
    (
        {"module": torch.nn.Linear(5, 2)},
        "module: cannot be called with examples [240, 2]: RuntimeError: ",
    ),
    ({"module": torch.nn.Sequential(Told(), torch.nn.Softmax(1))}, "module: gives probabilities"),
    ({"module": mute()}, "module: gives NaN or infinity"),
    ({"references": [torch.nn.Linear(2, 4)]}, "references[0]: gives 4 classes, but module gives 3"),
    *(({"batch_size": n}, f"batch_size: must be an integer >= 1, got {n}") for n in (0, 2.5)),
    ({"seed": -1}, "seed: must be an integer >= 0, got -1"),
]


@pytest.mark.parametrize(("given", "sentence"), REFUSED)
def test_what_no_attack_can_be_made_on_is_refused_in_a_sentence(
    given: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(fedpriv.ConfigError) as refusal:
        fedpriv.audit(**{"module": Told(), "members": INSIDE, "nonmembers": OUTSIDE} | given)
    assert sentence in str(refusal.value)


def test_examples_are_told_apart_in_the_type_that_the_module_is_given() -> None:
    assert len(fedpriv.audit(Told().double(), FINE, INSIDE, gradients=False).scores) == 2 * MEMBERS


class Still(Told):
    """Its forward pass keeps no gradients."""

    @torch.no_grad()
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x)


class Picky(Told):
    """Takes no single examples."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if len(x) < 2:
            raise IndexError("I need two")
        return super().forward(x)


@pytest.mark.parametrize(
    ("module", "why"),
    [
        (Still(), "ValueError: the output does not depend on a trainable parameter"),
        (Picky(), "IndexError: I need two"),
    ],
)
def test_gradients_that_there_are_not_are_refused_with_what_to_do(module: Told, why: str) -> None:
    with pytest.raises(fedpriv.ConfigError) as refusal:
        fedpriv.audit(module, INSIDE, OUTSIDE)
    assert str(refusal.value).startswith(f"module: its gradients cannot be computed: {why}")
    assert str(refusal.value).endswith(
        "; give gradients=False to leave out the attack by gradients"
    )
    assert (
        "gradient_norm" not in fedpriv.audit(module, INSIDE, OUTSIDE, gradients=False).table.index
    )


FORMS: tuple[Callable[[Any], Any], ...] = (
    lambda x: torch.tensor(x).bfloat16(),
    lambda x: x.astype(np.longdouble),
    lambda x: x.astype(">f4"),
    lambda x: x[:, ::-1][:, ::-1],
)


@pytest.mark.parametrize("form", FORMS, ids=["bfloat16", "long", "bytes", "strides"])
def test_examples_of_other_types_are_taken(form: Callable[[Any], Any]) -> None:
    apart = OUTSIDE[0] - np.array(
        [0, 4], np.float32
    )  # coarse numbers of both sides must not be equal
    result = fedpriv.audit(
        Told(), (form(INSIDE[0]), INSIDE[1]), (form(apart), OUTSIDE[1]), gradients=False
    )
    assert result.measures.query("attack == 'loss' and metric == 'auc'").iloc[0].value > 0.7


def test_a_module_without_parameters_is_queried_alone() -> None:
    module = Told()
    del module.weight
    module.weight = 1.0
    assert "gradient_norm" not in fedpriv.audit(module, INSIDE, OUTSIDE).table.index
