"""What the supervisor and the script process exchange. Runs in both; standard library only."""
