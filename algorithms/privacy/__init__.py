"""The ``privacy`` slot: how much of an update counts, and what is done to a model before it is sent out.

Each module has ``Config``, ``NEEDS`` ("mean", or "updates" for every client's own), ``NOISY`` (whether it adds noise),
``bound(config, norms)``, the scales [clients] by which updates with these L2 norms are multiplied before they are summed, and
``release(config, params, received, noise)``, applied by the server to the aggregated parameters [d]; ``noise`` is what has been
drawn for them (`Normals`), or None. A component that keeps account of what was spent has ``event(config, received,
run)``, what a round adds to the account, and ``final(config, run, rows, events)``.
"""
