"""Flower's simulation on Ray: two client actors with a core each, its own FedAvg, evaluation
switched off.

    python flower_simulation.py FOLDER

Runs in an environment of its own (`environments.py`). A round is one of its strategy's, from before
it samples the clients to after it has averaged them; Flower polls for messages ten times a second,
which is part of what its rounds cost.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import IO, Any

import flower_client
import networks
import numpy as np
import ray
import torch
from flwr.app import ArrayRecord, ConfigRecord, Context, Message
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation
from protocol import own_stdout, requests, say
from work import read_examples, read_initial, read_work

ENDLESS = 10**6  # rounds that are asked of Flower; the end of the input ends them


class OneAtATime(FedAvg):
    """FedAvg that begins a round when it is asked to."""

    def __init__(self, clients: int, out: IO[str]) -> None:
        super().__init__(
            fraction_train=1.0,
            fraction_evaluate=0.0,
            min_train_nodes=clients,
            min_available_nodes=clients,
        )
        self.out, self.asked, self.arrays = out, requests(sys.stdin), None

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Answer for the round before, then wait for the next line."""
        say(self.out, {"ready": True} if server_round == 1 else {})
        for word, rest in self.asked:
            if word == "round":
                return super().configure_train(server_round, arrays, config, grid)
            np.savez(
                rest,
                **{name: array.numpy() for name, array in arrays.to_torch_state_dict().items()},
            )
            say(self.out, {})
        ray.shutdown()
        os._exit(0)  # Flower has no other way out of a run

    def aggregate_train(self, server_round: int, replies: Iterable[Message]) -> Any:
        """The weighted average.

        A client that failed ends the benchmark: Flower would go on without it.
        """
        arrived = list(replies)
        failed = [reply.error.reason for reply in arrived if reply.has_error()]
        if failed or len(arrived) != self.min_train_nodes:
            print(
                f"{len(arrived)} of {self.min_train_nodes} clients answered; {failed[:1]}",
                file=sys.stderr,
            )
            os._exit(1)
        return super().aggregate_train(server_round, arrived)


def main() -> None:
    out = own_stdout()
    folder = Path(sys.argv[1])
    work, examples = read_work(folder), read_examples(folder)
    os.environ[flower_client.FOLDER] = str(folder)
    module = networks.build(work.network, examples.x.shape[1:], work.classes)
    module.load_state_dict(
        {name: torch.from_numpy(array) for name, array in read_initial(folder).items()}
    )
    server = ServerApp()

    @server.main()
    def run(grid: Grid, context: Context) -> None:
        OneAtATime(examples.clients, out).start(
            grid, ArrayRecord(module.state_dict()), num_rounds=ENDLESS
        )

    run_simulation(
        server_app=server,
        client_app=flower_client.app,
        num_supernodes=examples.clients,
        backend_config={
            "init_args": {"address": "local", "num_cpus": work.processes},
            "client_resources": {"num_cpus": 1, "num_gpus": 0.0},
        },
    )


if __name__ == "__main__":
    main()
