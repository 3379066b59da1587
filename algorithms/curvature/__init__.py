"""The curvature of a client's loss, and what FinP makes of it: rho, how far a client stands out."""
