"""Defines the protocol between the supervisor and the script process. Used in both; standard library only."""
