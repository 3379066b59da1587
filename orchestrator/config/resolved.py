"""Sweeps written out: every trial as a sweep file of its own, with all defaults filled in (``run --print-config``)."""

from __future__ import annotations

import yaml

from orchestrator.config.errors import ConfigError, format_value
from orchestrator.config.overrides import Places, apply_overrides
from orchestrator.config.run import trial_id
from orchestrator.config.sweep_file import SECTIONS, Sweep
from orchestrator.config.yaml_reader import read

LEFT_OUT = ("name", "description", "samples", *SECTIONS)  # keys that a single trial has of its own, or not at all


def resolved_trials(sweep: Sweep) -> str:
    """The trials of ``sweep`` as YAML documents, separated by ``---``.

    Each document is a sweep file that runs this one trial, with the same id. ``auto`` is replaced by the choice; fields
    that nobody reads are left out. Early stopping is no part of a single trial.

    Raises:
        ConfigError: the trials are drawn while the sweep runs, by a search.
    """
    if sweep.space is not None:
        sentence = "draws its trials while it runs, so --print-config cannot show them; config.yaml of each trial does"
        raise ConfigError([sweep.problem(sentence, "tune", "search")])
    given, _ = apply_overrides(read(sweep.text, str(sweep.path)), Places(str(sweep.path)), sweep.sets)
    above = {key: value for key, value in given.items() if key not in LEFT_OUT}  # such as data_root
    documents = []
    for run, values in zip(sweep.runs, sweep.values, strict=True):
        swept = ", ".join(f"{key}: {format_value(value)}" for key, value in values.items())
        tree = {
            "name": f"{sweep.name[:89]}-{trial_id(run)}",
            **above,
            "base": run.to_dict(),
            "resources": sweep.resources.model_dump(mode="json", exclude_defaults=True),
        }
        if not tree["resources"]:
            del tree["resources"]
        text = yaml.safe_dump(tree, sort_keys=False, allow_unicode=True, width=120, default_flow_style=None)
        documents.append(f"# trial {trial_id(run)}{': ' + swept if swept else ''}\n{text}")
    return "---\n".join(documents)
