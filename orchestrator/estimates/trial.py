"""The seconds of a trial by what they are spent on: the speeds of single steps times the counted work."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path

import numpy as np

from algorithms.interfaces import Run
from attacks.interfaces import ShadowWork
from datasets.federation import Federation, Source
from orchestrator.cluster.placement import Placement
from orchestrator.estimates import attack_speeds, needs, speeds, work
from orchestrator.estimates.attack_speeds import AttackWork
from orchestrator.estimates.speeds import Bench, TrainSpeed
from orchestrator.estimates.stopwatch import Stopwatch
from orchestrator.estimates.work import Deal, Rounds
from orchestrator.trial.attack_round import AttackComponent, of_kind
from orchestrator.trial.federation import federation_key, partition_data

EACH = 0.5  # seconds for one measurement; the work of a first step can take longer
LIMIT = 10.0  # seconds for all measurements of a plan
# Measured on trials whose training takes no time: Ray's answers, rows, files and the saved state.
TRIAL_SECONDS, ROUND_SECONDS, JOB_SECONDS, TASK_SECONDS = 0.7, 0.04, 0.003, 0.03
ALONE_SECONDS = 0.015  # the same for a round of a federation that is trained in a single process
MOST_LOOKS = 1000  # rounds of a replica after each of which an attack may look at it; the first of more stand for all
MOST_SHADOWS = 10  # that are made up to time an attack; with more, its work grows with their number
MOST_PARAMETERS = 25_000_000  # of a model whose steps are timed: a few seconds, and less than a gigabyte
MOST_EXAMPLES = 100_000  # of which data are partitioned for the measurements; FEMNIST's clients have 600 000
BYTES_PER_SECOND = 2e8  # at which models are sent and saved


@dataclass(frozen=True)
class Shares:
    """Seconds of a trial by what they are spent on."""

    training: float = 0.0
    evaluation: float = 0.0
    attacks: float = 0.0
    shadows: float = field(default=0.0, metadata={"label": "shadow models"})
    replicas: float = 0.0
    curvature: float = 0.0
    server: float = field(default=0.0, metadata={"label": "server and files"})
    data: float = field(default=0.0, metadata={"label": "loading data"})

    @property
    def total(self) -> float:
        """The sum of all shares."""
        return float(sum(asdict(self).values()))

    def __add__(self, other: Shares) -> Shares:
        return Shares(**{name: value + asdict(other)[name] for name, value in asdict(self).items()})

    def __mul__(self, times: float) -> Shares:
        return Shares(**{name: times * value for name, value in asdict(self).items()})

    def named(self) -> dict[str, float]:
        """Return the seconds by the name that a reader sees."""
        return {one.metadata.get("label", one.name): getattr(self, one.name) for one in fields(self)}


class Estimator:
    """Estimates trials of one sweep; what they have in common is measured once."""

    def __init__(self, root_of: Callable[[Run], Path], place: Placement) -> None:
        """Begin without any measurement.

        Args:
            root_of: returns the folder of a run's data.
            place: what one trial reserves.
        """
        self.root_of, self.place, self.watch = root_of, place, Stopwatch(LIMIT)
        self._held: tuple[str, Federation | None] = ("", None)
        self._loaded: tuple[str, Source | None] = ("", None)
        self._load_seconds = self._part_seconds = 0.0  # that these took

    def deal(self, run: Run) -> Deal:
        """Return the sizes of the run's federation; the seed is taken to change nothing in them.

        Raises:
            DataError: the data cannot be partitioned as the run asks.
        """
        return self.watch.once(
            ("deal", run.data.name, run.data.config.clients), (run.data, run.split), lambda: self._partition(run)
        )

    def _partition(self, run: Run) -> Deal:
        data = self._data(run)
        return Deal.of(data, self._load_seconds + self._part_seconds).repeated(run.data.config.clients)

    def _data(self, run: Run) -> Federation:
        key, held = self._held
        run = work.with_fewer_clients(run, MOST_EXAMPLES)
        wanted = federation_key(run, self.root_of(run))
        if held is None or key != wanted:
            self._held = ("", None)  # two federations at a time may not fit into memory
            source, started = self._source(run), time.perf_counter()
            held = partition_data(run, self.root_of(run), source)
            self._held, self._part_seconds = (wanted, held), time.perf_counter() - started
        return held

    def _source(self, run: Run) -> Source:
        """Return the run's data set, which trials with other seeds have as well."""
        key, source = self._loaded
        wanted = repr((run.data, self.root_of(run)))
        if source is None or key != wanted:
            self._loaded, started = ("", None), time.perf_counter()
            source = run.data.module.load(run.data.config, self.root_of(run), True)
            self._loaded, self._load_seconds = (wanted, source), time.perf_counter() - started
        return source

    def _bench(self, run: Run) -> Bench:
        return Bench.of(work.with_few_passes(run)[0], self._data(run), EACH)

    def oversized(self, run: Run) -> str | None:
        """Return why steps of the run are not timed, as a sentence; None if they are.

        Raises:
            DataError: the data cannot be partitioned as the run asks.
        """
        data = self._data(run)
        measure = lambda: needs.parameters(run, data.shape, data.classes)  # noqa: E731
        size = self.watch.once(("parameters", *self._network(run)), None, measure)
        if size is None or size <= MOST_PARAMETERS:
            return None
        return f"the model has {size:.2g} parameters, and a step of it would take more than a plan may"

    def shares(self, run: Run) -> Shares:
        """Return the seconds of a trial.

        Raises:
            DataError: the data cannot be partitioned as the run asks.
        """
        deal, rounds = self.deal(run), Rounds(run)
        shares = self._rounds(run, deal, rounds.done, rounds.evaluations, self.place.actors)
        shares += Shares(server=TRIAL_SECONDS, data=deal.seconds, training=self._pretraining(run, deal))
        for attack in of_kind(run, "updates"):
            done = self._observation(run, attack, deal)
            # The actor that repeats a client's training does so while the others wait.
            seconds = self._seconds(run, done) / self._spread(run, deal, self.place.actors) + self._again(run, done)
            shares += Shares(attacks=rounds.observed(attack) * seconds * work.attendance(run))
        for attack in of_kind(run, "models"):
            shares += self._model_attack(run, attack, deal)
        for attack in of_kind(run, "replicas"):
            shares += Shares(replicas=self._replicas(run, attack, deal))
        for attack in of_kind(run, "halves"):
            shares += self._halves(run, attack, deal)
        return shares

    def _rounds(self, run: Run, deal: Deal, rounds: int, evaluations: tuple[int, int], actors: int) -> Shares:
        """Return the seconds of that many rounds with their evaluations, without attacks."""
        spread, clusters = self._spread(run, deal, actors), run.clustering.config.clusters
        on_clients, on_tests = evaluations
        jobs = JOB_SECONDS * len(work.blocks(run, deal.clients)) if actors else 0.0
        examples = clusters * (on_clients * float(deal.sizes.sum()) / spread + on_tests * deal.tests / max(1, actors))
        return Shares(
            training=rounds * (self._training(run, deal) / spread + jobs) * work.attendance(run),
            evaluation=examples * self._evaluation(run) + on_clients * jobs,
            curvature=work.curvature_passes(run, rounds) * self._curvature(run, deal) / spread * work.attendance(run),
            server=rounds * (self._server(run, deal) + (ROUND_SECONDS if actors else ALONE_SECONDS)),
        )

    def _spread(self, run: Run, deal: Deal, actors: int) -> float:
        """Return how many times faster the blocks of a round are done by the actors than by one of them."""
        blocks = len(work.blocks(run, deal.clients))
        return blocks / -(-blocks // max(1, actors))

    def _training(self, run: Run, deal: Deal, together: int = 1) -> float:
        """Return the seconds of all blocks' local training in a round, of several federations at once."""
        speed, seconds = self._train_speed(run), 0.0
        short, times = work.with_few_passes(run)
        for block in work.blocks(run, deal.clients):
            plans = [work.plan_of(short, int(deal.sizes[i]), i) for i in block]
            seconds += speed.block_seconds(plans * together)
        return seconds * times

    def _train_speed(self, run: Run) -> TrainSpeed:
        training = {name: value for name, value in run.training.config if name not in ("epochs", "lr", "lr_decay")}
        block = work.blocks(run, self.deal(run).clients)[0]
        kind = ("training", *self._network(run), run.training.name, run.objective.name, len(block))
        measure = lambda: speeds.train_speed(self._bench(run), block)  # noqa: E731
        return self.watch.once(kind, (training, run.objective), measure)

    def _network(self, run: Run) -> tuple[object, ...]:
        """Return what a pass through the network depends on."""
        return run.model, run.data.name

    def _evaluation(self, run: Run) -> float:
        measure = lambda: speeds.evaluation_seconds(self._bench(run))  # noqa: E731
        return self.watch.once("evaluation", self._network(run), measure)

    def _passes(self, run: Run) -> float:
        kind = ("passes", *self._network(run), run.training.name)
        measure = lambda: speeds.pass_seconds(self._bench(run))  # noqa: E731
        return self.watch.once(kind, run.training.config.batch_size, measure)

    def _curvature(self, run: Run, deal: Deal) -> float:
        if not run.measures_curvature:
            return 0.0
        measure = lambda: speeds.curvature_speed(self._bench(run))  # noqa: E731
        speed = self.watch.once(("curvature", *self._network(run)), run.curvature, measure)
        return sum(speed.seconds(work.curved_examples(run, int(size))) for size in deal.sizes)

    def _server(self, run: Run, deal: Deal) -> float:
        kind = ("server", *self._network(run), run.aggregation.name, run.privacy.name, deal.clients)
        measure = lambda: speeds.server_seconds(self._bench(run), deal.clients)  # noqa: E731
        step = self.watch.once(kind, (run.aggregation, run.privacy), measure)
        size = self.watch.once("size", self._network(run), lambda: self._bench(run).network.layout.size)
        return step + run.clustering.config.clusters * 4 * size / BYTES_PER_SECOND

    def _pretraining(self, run: Run, deal: Deal) -> float:
        warm = run.aggregation.module.warm_start(run.aggregation.config)
        models = Rounds(run).begun * run.clustering.config.clusters
        return models * warm.epochs * deal.shadow * self._passes(run) if warm else 0.0

    def _seconds(self, run: Run, done: AttackWork) -> float:
        """Return the seconds of what an attack does; gradients are timed only if it takes any."""
        shown = self._evaluation(run) if done.shown else 0.0
        if not done.steps:
            return done.total(shown, (0.0, 0.0))
        measure = lambda: attack_speeds.gradient_seconds(self._bench(run))  # noqa: E731
        return done.total(shown, self.watch.once("gradient", self._network(run), measure))

    def _again(self, run: Run, done: AttackWork) -> float:
        """Return the seconds of the local trainings that an attack repeats, one client at a time."""
        if not done.trainings:
            return 0.0
        short, times = work.with_few_passes(run)
        plan = work.plan_of(short, round(done.trained / done.trainings), 0)
        return done.trainings * self._train_speed(run).block_seconds([plan]) * times

    def _observation(self, run: Run, attack: AttackComponent, deal: Deal) -> AttackWork:
        blocks = len(work.blocks(run, deal.clients))
        measure = lambda: attack_speeds.observation(self._bench(run), attack, blocks)  # noqa: E731
        return self.watch.once(("observation", attack, *self._network(run)), (run.data, run.split), measure)

    def _model_attack(self, run: Run, attack: AttackComponent, deal: Deal) -> Shares:
        """Return the seconds of all attacks on models: their shadow models, and what is done with them."""
        clusters = work.cluster_deals(run, deal)
        todo = [
            (often, own, attack.module.shadow_work(attack.config, rounds, int(own.sizes.sum()), own.shadow))
            for own in clusters
            for rounds, often in Rounds(run).audits(attack)
        ]
        shadows, times = max((one.models for _, _, one in todo), default=0), sum(often for often, _, _ in todo)
        trained = sum(often * self._shadows(run, own, one) for often, own, one in todo)
        kind = ("audit", attack, run.data.name, len(clusters))
        largest = max(1, *(one.examples for _, _, one in todo)) if shadows else 0
        few = min(shadows, MOST_SHADOWS)
        measure = lambda: attack_speeds.audit(self._bench(run), attack, largest, few)  # noqa: E731
        one = self._seconds(run, self.watch.once(kind, (run.data, run.split), measure)) * (shadows / few if few else 1)
        parallel = len(clusters) / -(-len(clusters) // self.place.shadows)
        return Shares(
            attacks=times * (one + TASK_SECONDS) / parallel,
            shadows=(trained + times * shadows * TASK_SECONDS) / self.place.shadows,
        )

    def _shadows(self, run: Run, cluster: Deal, todo: ShadowWork) -> float:
        """Return the seconds of training the shadow models for one attack on the model of ``cluster``."""
        if not todo.models or not todo.examples:
            return 0.0
        if todo.rounds:
            small = work.imitation(cluster, todo.examples)
            one = self._rounds(replace(run, attacks=()), small, todo.rounds, (0, 0), 0).total
        else:
            one = todo.passes * todo.examples * (self._passes(run) + self._evaluation(run))
        return todo.models * (one + 2 * todo.examples * self._evaluation(run))

    def _replicas(self, run: Run, attack: AttackComponent, deal: Deal) -> float:
        """Return the seconds of the federations that an attack trains, each in a process of its own."""
        replicas = list(attack.module.replicas(attack.config, run.rounds))
        if not replicas:
            return 0.0
        alone, seconds = replace(run, attacks=()), dict[int, float]()
        measured = self._seconds(run, self._measured(run, attack))
        for rounds in {one.rounds for one in replicas}:
            asked = min(rounds, MOST_LOOKS)
            looks = sum(attack.module.looks_after(attack.config, r + 1) for r in range(asked)) * rounds / asked
            trained = self._trained_alone(replace(alone, rounds=rounds), deal)
            seconds[rounds] = trained + looks * measured
        mean = float(np.mean([seconds[one.rounds] for one in replicas]))
        return mean * -(-len(replicas) // self.place.shadows)

    def _halves(self, run: Run, attack: AttackComponent, deal: Deal) -> Shares:
        """Return the seconds of the replicas that an attack trains on halves of the records, and of the attack itself."""
        measure = lambda: attack_speeds.halved(self._bench(run), attack)  # noqa: E731
        kind = ("halves", attack, *self._network(run))
        todo = self.watch.once(kind, (run.data, run.split, run.training), measure)
        half = replace(deal, sizes=np.resize(todo.sizes, deal.clients))
        curvature = self._rounds(replace(run, attacks=()), half, run.rounds, (0, 0), 0).curvature
        trained = run.rounds * self._training(run, half, todo.together) * work.attendance(run)
        asked = todo.records * deal.clients / len(todo.sizes) * self._evaluation(run)
        begun = self._pretraining(run, deal) / Rounds(run).begun + TASK_SECONDS
        task = trained + todo.together * (curvature + run.rounds * self._server(run, half) + asked) + begun
        tasks = -(-todo.replicas // todo.together)
        waves = -(-tasks // self.place.shadows)
        return Shares(replicas=waves * task, attacks=asked + todo.seconds)

    def _trained_alone(self, run: Run, deal: Deal) -> float:
        rounds = Rounds(run)
        return self._rounds(run, deal, rounds.done, rounds.evaluations, 0).total + self._pretraining(run, deal)

    def _measured(self, run: Run, attack: AttackComponent) -> AttackWork:
        measure = lambda: attack_speeds.replica_measure(self._bench(run), attack)  # noqa: E731
        return self.watch.once(("measure", attack, run.data.name), (run.data, run.split), measure)
