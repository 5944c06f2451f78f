"""The folder of a run: its permitted users, its lock, its status. Runs in every process except the script's."""
