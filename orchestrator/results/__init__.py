"""The results folder: its files and tables, the record of an ended trial, and the provenance of
results.
"""
