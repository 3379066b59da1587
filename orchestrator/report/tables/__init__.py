"""Tables of a report: the summary, the published numbers beside the measured ones, the table on the terminal."""
