"""Monitoring of the machine while a script trains: measures, keeps, and finds what is wrong.

A small process of its own samples once a second (`sampler`): the supervisor forks, and NVML does not work in a process
that was forked after it was initialised. It keeps every sample (`store`), and looks for faults in the last ones
(`detection`, `detectors/`), which it tells its parent.
"""
