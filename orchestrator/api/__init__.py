"""fedpriv from Python, which the module ``fedpriv`` at the top of the checkout hands on: runs,
results, audits.
"""
