"""Engines: programs that run a formulation, in this process or in a child process."""
