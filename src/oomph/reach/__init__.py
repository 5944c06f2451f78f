"""Runs an unmodified script up to one of its training calls, has that call examined there, and stops the script.

Used by `oomph check` and `oomph plan`. The parent starts the script (`reach`). The script's process examines the model
and the arguments of `fit` (`oomph.reach.live`) and answers through a pipe. No line of the script runs after that.
"""
