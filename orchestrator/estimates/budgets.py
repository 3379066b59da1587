"""What is said of a sweep's privacy before anything starts: the epsilon that its runs will have, and the noise it takes."""

from __future__ import annotations

from algorithms.core.accounting import rounded_up
from orchestrator.config.errors import ConfigError
from orchestrator.config.sweep_file import Sweep
from orchestrator.trial.federation import federation_key, partition_data, settled


def budget_lines(sweep: Sweep) -> list[str]:
    """The lines, each once. A target that depends on the clients' numbers of examples needs the partition of the data.

    Raises:
        ConfigError: no noise reaches a target.
    """
    lines, done = list[str](), set[str]()
    for run in sweep.runs:
        lines += filter(None, [run.privacy.module.remark(run.privacy.config, run)])
        target = run.training.to_dict().get("target_epsilon")
        key = repr((federation_key(run, sweep.root_of(run)), run.training, run.rounds))
        if target is None or key in done:
            continue
        done.add(key)
        try:
            found = settled(run, partition_data(run, sweep.root_of(run))).training.config
        except ValueError as error:
            raise ConfigError([sweep.problem(str(error), "base", "training", "target_epsilon")]) from error
        noise = f"needs noise_multiplier {found.noise_multiplier:g} for the largest of all clients' epsilons"  # type: ignore[attr-defined]
        lines.append(f"{run.training.name}: target_epsilon {target:g} after {run.rounds} rounds {noise}")
    if sweep.tune and (epsilon := search_epsilon(sweep)) is not None:
        of = f"of a client with the search, {sweep.tune.draws}; the best alone is published"
        lines.append(f"draws: epsilon {rounded_up(epsilon):g} {of}")
    return list(dict.fromkeys(lines))


def search_epsilon(sweep: Sweep) -> float | None:
    """The epsilon of a client towards whoever sees the best of drawn trials alone; None of another sweep."""
    run, draws = sweep.runs[0], sweep.tune and sweep.tune.draws
    account = run.privacy.module.planned(run.privacy.config, run) if draws else None
    return draws.epsilon(account) if draws and account else None
