"""Records evidence while a kernel lives, so that the next kernel can tell what killed it if nobody supervised it."""
