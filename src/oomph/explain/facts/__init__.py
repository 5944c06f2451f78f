"""Facts: what a log says about the program, the installation and the machine, each with its line."""
