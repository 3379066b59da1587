"""What follows from the choices of a run, whatever components it is made of; `algorithms.interfaces.Run` has it."""

from __future__ import annotations

from typing import Any

SIGHTS = ("models", "sum", "updates")  # what the server may see, from the least to the most


class RunProperties:
    """Properties of a run, and the run as plain values."""

    data: Any
    split: Any
    model: Any
    training: Any
    objective: Any
    aggregation: Any
    privacy: Any
    curvature: Any
    attacks: Any

    @property
    def measures_curvature(self) -> bool:
        """Whether clients measure their curvature, because a component reads rho."""
        statistics = self.aggregation.module.statistics(self.aggregation.config)
        return "rho" in self.objective.module.NEEDS or "rho" in statistics

    @property
    def draws_noise(self) -> bool:
        """Whether the server or the clients add noise, which ``privacy.noise`` makes reproducible or secret."""
        return self.privacy.module.NOISY or self.training.module.PRIVATE_STEPS

    @property
    def repeatable(self) -> bool:
        """Whether the run gives the same bytes again, which it does unless its noise is secret."""
        return not self.draws_noise or self.privacy.config.noise == "reproducible"

    def _no_choice(self, name: str, value: Any) -> bool:
        """Return whether a field of the privacy slot says nothing of this run.

        That is the kind of noise where there is none, and an audit that is made anyway where nothing is claimed: it changes
        nothing of the run, and runs from before there were such audits keep their ids.
        """
        if name == "noise":
            return not self.draws_noise
        return name == "audit_every" and value == "auto" and not self.privacy.module.NOISY

    def to_dict(self) -> dict[str, Any]:
        """Return the run as plain JSON values, with all fields that are read."""
        slots = ("model", "training", "clustering", "objective", "aggregation")
        settings = ("rounds", "seed", "evaluate_every", "participation", "participation_rate", "server_sees")
        unread = self.split.module.unread_of_data(self.split.config, self.data.config)
        data = {name: value for name, value in self.data.to_dict().items() if name not in unread}
        privacy = {name: value for name, value in self.privacy.to_dict().items() if not self._no_choice(name, value)}
        return {
            **{name: getattr(self, name) for name in settings},
            "data": {**data, "split": self.split.to_dict()},
            **{name: getattr(self, name).to_dict() for name in slots},
            "privacy": privacy,
            **({"curvature": self.curvature.dump_read()} if self.measures_curvature else {}),
            "attacks": [attack.to_dict() for attack in self.attacks],
        }
