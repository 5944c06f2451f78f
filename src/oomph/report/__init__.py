"""`oomph report`: what happened in a run, as a page with charts, as Markdown, JSON or CSV.

The page is one file, which can be sent to anybody. It loads nothing, and shows its charts without scripts too; uPlot
(`vendor/`, MIT licence) makes them interactive.
"""
