"""The conformance suite: what every component must declare and do, ours and those from elsewhere.

`fedpriv check NAME` runs it on one component (`suite`), and ``tests/conformance`` on all of ours.
"""
