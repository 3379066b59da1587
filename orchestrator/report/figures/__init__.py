"""The figures of a report; each is drawn from an `Arrangement` of the trials."""
