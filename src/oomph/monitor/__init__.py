"""Monitors the machine while a script trains: measures, stores, and finds faults.

A small separate process samples once a second (`sampler`): the supervisor forks, and NVML does not work in a process
that was forked after it was initialised. It keeps every sample (`store`), looks for faults in the latest ones
(`detection`, `detectors/`), and reports them to its parent.
"""
