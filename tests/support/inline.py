"""A trial without Ray: the same loop, jobs and audits, run one after another in this process. The slow, obvious version."""

from orchestrator.conformance.example_runs import InlineShadows, inline_trial

__all__ = ["InlineShadows", "inline_trial"]
