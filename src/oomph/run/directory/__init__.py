"""The run directory: who may use it, its lock and its status. Used in every process except the script's."""
