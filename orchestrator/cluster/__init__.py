"""Ray, started or joined; what a trial occupies there; whether nodes, data and GPU memory suffice before anything starts."""
