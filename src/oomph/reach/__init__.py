"""Runs an unmodified script up to one of its trainings, has it examined in that process, and ends the script there.

`oomph check` and `oomph plan` use it. The parent starts the script (`reach`). The script's process examines the model
and the arguments of `fit` (`oomph.reach.live`) and answers through a pipe. No line of the script runs after that.
"""
