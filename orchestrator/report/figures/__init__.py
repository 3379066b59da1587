"""Figures of a report, each from an arrangement of trials."""
