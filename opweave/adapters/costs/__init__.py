"""Sources of operator times: measurements on this machine, profiles, a roofline."""
