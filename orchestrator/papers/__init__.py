"""What papers print, beside what was measured: a referee's tool.

Claims are relations (`claims`), decided by one rule (`rule`) on effects over pairs of trials
(`effects`, `verdicts`, `verdict_page`). Printed numbers are records (`records`), each beside the
measured number (`numbers`, `number_page`).
"""
