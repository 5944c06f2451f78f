"""What the supervisor and the script's process agree on. Standard library only; in both processes."""
