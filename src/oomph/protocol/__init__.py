"""The protocol between the supervisor and the script process. Runs in both; standard library only."""
