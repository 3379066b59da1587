"""Apple's pfl-research: two ranks with a thread each, its own FedAvg weighted by examples,
evaluation switched off.

    python pfl_research.py FOLDER

Runs in an environment of its own (`environments.py`). Its users keep their batches, cut once and
never shuffled, which is less work than the others do. The first of its rounds also evaluates every
user; it is a warm-up round.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

from protocol import own_stdout, requests, say

ENDLESS = 10**9


def start_ranks(processes: int) -> list[subprocess.Popen[str]]:
    """Make this process rank 0 and start the others; must come before pfl is imported, which
    joins the group.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    os.environ |= {
        "TORCHELASTIC_RUN_ID": "benchmark",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "WORLD_SIZE": str(processes),
        "PFL_PYTORCH_DEVICE": "cpu",
        "CUDA_VISIBLE_DEVICES": "",
    }
    others = [
        subprocess.Popen(
            [sys.executable, *sys.argv],
            stdin=subprocess.PIPE,
            text=True,
            env=os.environ | {"RANK": str(rank), "LOCAL_RANK": str(rank)},
        )
        for rank in range(1, processes)
    ]
    os.environ |= {"RANK": "0", "LOCAL_RANK": "0"}
    return others


def turns(
    out: IO[str] | None, others: list[subprocess.Popen[str]], save: Callable[[str], None]
) -> Callable[[], bool]:
    """A function that waits until the next round may begin, on every rank; False where there is
    none.

    Rank 0, which has ``out``, hears of it from the coordinator and tells the others.
    """
    asked = requests(sys.stdin)
    if out is None:
        return lambda: next(asked, None) is not None
    said = {"ready": True}

    def next_round() -> bool:
        nonlocal said
        say(out, said)
        said = {}
        for word, rest in asked:
            if word == "round":
                for other in others:
                    print("round", file=other.stdin, flush=True)
                return True
            save(rest)
            say(out, {})
        for other in others:
            other.stdin.close()
        return False

    return next_round


def main() -> None:
    from work import read_examples, read_initial, read_work

    folder = Path(sys.argv[1])
    work = read_work(folder)
    out = None if "RANK" in os.environ else own_stdout()
    others = start_ranks(work.processes) if out else []

    import networks
    import numpy as np
    import torch
    from pfl.aggregate.simulate import SimulatedBackend
    from pfl.aggregate.weighting import WeightByDatapoints
    from pfl.algorithm.base import NNAlgorithmParams
    from pfl.algorithm.federated_averaging import FederatedAveraging
    from pfl.callback.base import TrainingProcessCallback
    from pfl.data.federated_dataset import FederatedDataset
    from pfl.data.pytorch import PyTorchTensorDataset
    from pfl.data.sampling import get_user_sampler
    from pfl.hyperparam import NNEvalHyperParams, NNTrainHyperParams
    from pfl.metrics import Metrics, Weighted
    from pfl.model.pytorch import PyTorchModel
    from torch.nn.functional import cross_entropy

    torch.set_num_threads(1)
    np.random.seed(0)  # every rank must draw the same users
    examples = read_examples(folder)
    module = networks.build(work.network, examples.x.shape[1:], work.classes)
    module.load_state_dict(
        {name: torch.from_numpy(array) for name, array in read_initial(folder).items()}
    )
    module.loss = lambda x, y: cross_entropy(module(x), y)
    module.metrics = lambda x, y: {"loss": Weighted(module.loss(x, y).item() * len(y), len(y))}
    users = [
        PyTorchTensorDataset(
            tuple(torch.from_numpy(array) for array in examples.of(client)), user_id=str(client)
        )
        for client in range(examples.clients)
    ]
    optimizer = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam}[work.optimizer]
    model = PyTorchModel(
        module,
        local_optimizer_create=optimizer,
        central_optimizer=torch.optim.SGD(module.parameters(), lr=1.0),
        amp_dtype=torch.bfloat16 if work.precision == "bf16" else None,
    )
    federation = FederatedDataset(
        users.__getitem__, get_user_sampler("minimize_reuse", list(range(examples.clients)))
    )

    def save(path: str) -> None:
        np.savez(
            path, **{name: array.detach().numpy() for name, array in module.named_parameters()}
        )

    class OneAtATime(TrainingProcessCallback):
        """Lets a round begin when it is asked for."""

        def on_train_begin(self, *, model: Any) -> Metrics:
            self.next_round = turns(out, others, save)
            if not self.next_round():
                sys.exit()
            return Metrics()

        def after_central_iteration(
            self, aggregate_metrics: Metrics, model: Any, *, central_iteration: int
        ) -> tuple[bool, Metrics]:
            return not self.next_round(), Metrics()

    FederatedAveraging().run(
        NNAlgorithmParams(
            ENDLESS,
            evaluation_frequency=ENDLESS,
            train_cohort_size=examples.clients,
            val_cohort_size=0,
        ),
        SimulatedBackend(federation, federation, postprocessors=[WeightByDatapoints()]),
        model,
        NNTrainHyperParams(
            local_num_epochs=work.epochs,
            local_learning_rate=work.lr,
            local_batch_size=work.batch_size,
        ),
        NNEvalHyperParams(local_batch_size=None),
        [OneAtATime()],
        send_metrics_to_platform=False,
    )


if __name__ == "__main__":
    main()
