"""Metrics of a federation other than attacks: classification, clustering, group fairness and
violations.
"""
