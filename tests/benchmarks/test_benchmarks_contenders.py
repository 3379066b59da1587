"""The contenders: they do the same work, and the coordinator can talk to them and be rid of
them. No peer is installed.
"""

from __future__ import annotations

import mmap
import os
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import fedpriv_trial
import machine
import numpy as np
import psutil
import pytest
import torch
from contender import Contender, Failed
from contenders import networks
from contenders.work import ClientExamples, Work, read_examples, read_work
from plain_training import PlainTraining
from torch.nn.functional import cross_entropy
from workloads import WORKLOADS, initial, lay, patterns

from algorithms.core.network import Network
from orchestrator.config.run import resolve
from orchestrator.conformance.example_runs import inline_trial

SIZES = (3, 7, 5)  # examples of three clients; a batch of seven holds all of each
SHAPES = {"mlp": (1, 8, 8), "mnist_cnn": (1, 28, 28), "tcn": (9, 128)}


def work_of(network: str, **changes: object) -> tuple[Work, ClientExamples]:
    """One step per client and round, on all of its examples."""
    work = Work("tiny", network, 4, batch_size=7, optimizer="sgd", lr=0.5, **changes)
    x, y = patterns(sum(SIZES), SHAPES[network], 4)
    return work, ClientExamples(x, y, np.concatenate([[0], np.cumsum(SIZES)]))


def averaged(work: Work, examples: ClientExamples) -> dict[str, np.ndarray]:
    """The weights after a round, by hand: the mean, by examples, of one gradient step on each
    client's examples.
    """
    module = networks.build(work.network, examples.x.shape[1:], work.classes).double()
    start = {
        name: torch.from_numpy(a).double()
        for name, a in initial(work, examples.x.shape[1:]).items()
    }
    total = {name: np.zeros(array.shape) for name, array in start.items()}
    for client in range(examples.clients):
        module.load_state_dict(start)
        x, y = (torch.from_numpy(array) for array in examples.of(client))
        module.zero_grad()
        cross_entropy(module(x.double()), y).backward()
        for name, parameter in module.named_parameters():
            total[name] += (
                len(y) / len(examples.y) * (parameter - work.lr * parameter.grad).detach().numpy()
            )
    return total


@pytest.mark.parametrize("name", ["digits", "mnist", "mnist_bf16", "har"])
def test_plain_networks_are_fedprivs(name):
    work = WORKLOADS[name].work
    shape = SHAPES[work.network]
    two = ClientExamples(np.zeros((2, *shape), np.float32), np.zeros(2, np.int64), np.arange(3))
    run = resolve(fedpriv_trial.given(work, two) | {"rounds": 1})
    ours = Network(run.model, shape, work.classes)
    arrays = initial(work, shape)
    ours.load(fedpriv_trial.flattened(arrays))
    plain = networks.build(work.network, shape, work.classes)
    plain.load_state_dict({key: torch.from_numpy(array) for key, array in arrays.items()})
    x = np.random.default_rng(0).random((5, *shape), np.float32)
    np.testing.assert_allclose(
        ours.logits(x), plain(torch.from_numpy(x)).detach().numpy(), rtol=1e-4, atol=1e-6
    )
    assert run.training.config.precision == work.precision
    assert sum(array.size for array in arrays.values()) == ours.layout.size


@pytest.mark.parametrize("network", ["mlp", "mnist_cnn", "tcn"])
def test_our_round_is_the_average_of_the_clients_steps(network, tmp_path):
    work, examples = work_of(network)
    given = fedpriv_trial.given(work, examples) | {"rounds": 3, "evaluate_every": 3}
    trial = inline_trial(given, tmp_path, fedpriv_trial.federation(work, examples))
    trial.state.models = [fedpriv_trial.flattened(initial(work, examples.x.shape[1:]))]
    clock = fedpriv_trial.Clock(trial.rounds)
    trial.advance()
    for found, wanted in zip(
        trial.rounds.arrays().values(), averaged(work, examples).values(), strict=True
    ):
        np.testing.assert_allclose(found.reshape(wanted.shape), wanted, atol=1e-5)
    assert clock.taken()["train"] > 0
    assert clock.taken() == {}


@pytest.mark.parametrize("channels_last", [False, True])
def test_a_plain_step_is_the_same_in_either_memory_format(channels_last):
    work, examples = work_of("mnist_cnn")
    alone = ClientExamples(examples.x[:3], examples.y[:3], np.array([0, 3]))
    training = PlainTraining(work, alone, channels_last)
    training.load(
        {
            name: torch.from_numpy(array)
            for name, array in initial(work, SHAPES["mnist_cnn"]).items()
        }
    )
    assert training.train(0) == 3
    for name, wanted in averaged(work, alone).items():
        np.testing.assert_allclose(
            dict(training.module.named_parameters())[name].detach(), wanted, atol=1e-5
        )
    kernel = training.module[3].weight
    assert kernel.is_contiguous(memory_format=torch.channels_last) == channels_last


def test_the_work_is_read_as_it_was_laid(tmp_path):
    work, examples = work_of("mlp", precision="bf16", processes=3)
    lay(tmp_path, replace(WORKLOADS["digits"], work=work), examples)
    assert read_work(tmp_path) == work
    read = read_examples(tmp_path)
    assert read.clients == 3
    assert all(np.array_equal(read.of(2)[part], examples.of(2)[part]) for part in (0, 1))


def scripted(tmp_path: Path, body: str) -> Contender:
    """A contender that answers ``round`` as ``body``, a Python function of one argument, does."""
    script = tmp_path / "scripted.py"
    head = f"import sys\nsys.path.append({str(Path(networks.__file__).parent)!r})\n"
    head += "import os, subprocess, time\nfrom protocol import own_stdout, serve\n"
    script.write_text(f"{head}out = own_stdout()\n{body}\nserve(out, {{'round': round_}})\n")
    return Contender("scripted", str(script), [], tmp_path / "log")


def test_what_libraries_print_disturbs_no_answer_and_its_last_words_are_told(tmp_path):
    body = (
        "def round_(_):\n    os.system('echo more')\n    print('noise', flush=True)\n    return "
        "{'parts': 1}\n"
    )
    with scripted(tmp_path, body) as contender:
        assert contender.ready().ask("round")[1] == {"parts": 1}
        contender.process.terminate()
        with pytest.raises(Failed, match=r"scripted ended; last in .*log: noise"):
            contender.ask("round")


def comes_to(process: psutil.Process, *statuses: str) -> bool:
    """Whether the process has one of these statuses within some seconds; "" is that it is gone."""
    for _ in range(200):
        with suppress(psutil.NoSuchProcess):
            if process.status() in statuses:
                return True
        if "" in statuses and not process.is_running():
            return True
        time.sleep(0.05)
    return False


def test_who_is_halted_stands_still_with_all_that_it_started_and_stopping_leaves_none_behind(
    tmp_path,
):
    body = (
        "child = subprocess.Popen(['sleep', '300'], start_new_session=True)\n"
        "def round_(_):\n    return {'child': child.pid}"
    )
    with scripted(tmp_path, body) as contender:
        child = psutil.Process(contender.ready().ask("round")[1]["child"])
        assert child.pid in contender.pids()
        contender.halt()
        assert comes_to(child, psutil.STATUS_STOPPED)
        contender.wake()
        assert comes_to(child, psutil.STATUS_SLEEPING)
        contender.halt()
    assert comes_to(child, psutil.STATUS_ZOMBIE, "")


def test_memory_of_a_process_is_that_which_it_holds():
    before = machine.resident([os.getpid()])
    # Pages of its own: what this process has freed before may be kept, and an array that fits there
    # adds nothing.
    pages = mmap.mmap(-1, 64_000_000, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    held = np.frombuffer(pages, np.float64)
    held[:] = 1
    assert 56e6 < machine.resident([os.getpid()]) - before < 90e6
    assert held.all()
