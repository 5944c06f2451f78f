"""The folder of a run: who may use it, its lock, its status. In every process but the script's."""
