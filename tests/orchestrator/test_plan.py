"""The estimate of a dry run: what is counted in it."""

from orchestrator import dry_run
from orchestrator.cluster.placement import placement
from orchestrator.config.resources import Resources
from orchestrator.config.run import resolve


def _run(replicas: int):
    attack = {"name": "cia", "replicas": replicas, "rounds": [1, 3]}
    return resolve({"rounds": 3, "data": {"name": "digits", "clients": 8}, "model": "mlp", "attacks": [attack]})


def test_federations_that_are_trained_beside_a_run_cost_as_many_rounds_as_they_have():
    place = placement(Resources(client_actors=2), _run(2).training.config)
    # Two with the target and two without, of three rounds each, one after another in as many tasks as there are.
    assert dry_run._replicas(_run(2), 10.0, place) == 2 * 2 * 3 * 10.0 / place.shadows
    assert dry_run._replicas(_run(0), 10.0, place) == 0
