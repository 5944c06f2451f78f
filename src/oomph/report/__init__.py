"""`oomph report`: what happened in a run, as a page with charts, as Markdown, JSON or CSV. Reads a run, changes nothing.

The page is one file. It loads nothing, and shows its charts without scripts too; uPlot (`vendor/`, MIT licence) makes
them interactive.
"""
