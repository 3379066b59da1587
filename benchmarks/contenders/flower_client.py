"""Flower's client, in a module of its own so that its actors import it once and keep what it has
loaded.

Better than the usual example, which builds a network and reads its data for every message: both are
kept per process.
"""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

import torch
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from plain_training import PlainTraining
from work import read_examples, read_work

FOLDER = "FEDPRIV_BENCHMARK_FOLDER"  # environment variable; Flower hands its actors no arguments

app = ClientApp()


@cache
def training() -> PlainTraining:
    """This process' module and examples."""
    torch.set_num_threads(1)
    folder = Path(os.environ[FOLDER])
    return PlainTraining(read_work(folder), read_examples(folder))


@app.train()
def train(message: Message, context: Context) -> Message:
    """One client's round."""
    mine = training()
    mine.module.load_state_dict(message.content["arrays"].to_torch_state_dict())
    count = mine.train(int(context.node_config["partition-id"]))
    content = {
        "arrays": ArrayRecord(mine.module.state_dict()),
        "metrics": MetricRecord({"num-examples": count}),
    }
    return Message(content=RecordDict(content), reply_to=message)
