"""The folder of a run: who may use it, its lock, its status. Runs in every process but the script's."""
