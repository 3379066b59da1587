"""The curvature of a client's loss, and the statistic rho that FinP derives from it: how far a
client stands out.
"""
