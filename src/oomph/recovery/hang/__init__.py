"""When silence is a hang: what the supervisor watches, and when it intervenes. In the supervisor."""
