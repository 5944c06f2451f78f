"""What a traced function writes, depends on and consists of."""
