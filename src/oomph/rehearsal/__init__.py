"""oomph rehearse: a script through faults on purpose, before the faults come by themselves."""
