"""The catalogue of faults as data, and the function that diagnoses them from evidence."""
