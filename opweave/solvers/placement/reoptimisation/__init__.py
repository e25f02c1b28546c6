"""Plans improved window by window with constraint programming, in one child process."""
