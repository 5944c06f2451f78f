"""The demonstration: one small training under conditions that kill it, without oomph and with it, and compared.

scenario.py says what is run, children.py runs it, weights.py compares two results (the only part that needs NumPy, so
it runs in a process of its own), claims.py judges what was measured (pure), show.py tells the story.
"""
