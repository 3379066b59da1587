"""The arithmetic of attack metrics: success of membership inference, and disparity of exposure
among clients.
"""
