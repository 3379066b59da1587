"""The tables of a report: the summary, the comparison with published numbers, and the table on the terminal."""
