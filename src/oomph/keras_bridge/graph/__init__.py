"""What a traced function writes, depends on and contains."""
