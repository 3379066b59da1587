"""What Tune tells, passed on to `Progress`."""

from __future__ import annotations

from typing import Any

from ray import tune

from orchestrator.progress import Progress


class Hearing(tune.Callback):
    """Translates Tune's callbacks; the only place that knows how Tune speaks of trials."""

    def __init__(self, progress: Progress) -> None:
        self.progress = progress

    def __getstate__(self) -> dict[str, Any]:
        """Tune pickles its callbacks for its own way of resuming, which is not ours; screens and threads cannot be pickled."""
        return {}

    def on_trial_start(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        self.progress.started(_id(trial))

    def on_trial_result(
        self, iteration: int, trials: list[Any], trial: Any, result: dict[str, Any], **info: Any
    ) -> None:
        self.progress.rounds(_id(trial), result.get("rows", []))
        if result.get("note"):
            self.progress.noted(_id(trial), result["note"])
        if "summary" in result:
            self.progress.ended(_id(trial), result["summary"])

    def on_trial_error(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        self.progress.lost(_id(trial), trial.error_file)


def _id(trial: Any) -> str:
    return trial.config["trial"]["id"]
